// The trivial operator on controller-runtime. Its twins on Mainstay's runtime and kube-rs stand
// beside it and do exactly the same: every ConfigMap labelled `bench=src` gets a child ConfigMap
// `NAME-child`, labelled `bench=child` and owned by it, whose `n` is the length of the source's `v`.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

type reconciler struct {
	client client.Client
	scheme *runtime.Scheme
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var source corev1.ConfigMap
	if err := r.client.Get(ctx, request.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.DeletionTimestamp != nil || source.Labels["bench"] != "src" {
		return ctrl.Result{}, nil
	}
	n := strconv.Itoa(len(source.Data["v"]))
	var child corev1.ConfigMap
	key := client.ObjectKey{Namespace: source.Namespace, Name: source.Name + "-child"}
	err := r.client.Get(ctx, key, &child)
	if err == nil && child.Data["n"] == n {
		return ctrl.Result{}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace,
			Name:      key.Name,
			Labels:    map[string]string{"bench": "child"},
		},
		Data: map[string]string{"n": n},
	}
	if err := controllerutil.SetControllerReference(&source, wanted, r.scheme); err != nil {
		return ctrl.Result{}, err
	}
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.client.Create(ctx, wanted)
	}
	return ctrl.Result{}, r.client.Update(ctx, wanted)
}

func run() error {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS = -1
	both, err := labels.NewRequirement("bench", selection.In, []string{"src", "child"})
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// One cache of a kind is all there is: it holds both.
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Label: labels.NewSelector().Add(*both)},
		}},
	})
	if err != nil {
		return err
	}
	isSource := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetLabels()["bench"] == "src"
	})
	isChild := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetLabels()["bench"] == "child"
	})
	err = ctrl.NewControllerManagedBy(manager).
		Named("trivial").
		For(&corev1.ConfigMap{}, builder.WithPredicates(isSource)).
		Owns(&corev1.ConfigMap{}, builder.WithPredicates(isChild)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(&reconciler{client: manager.GetClient(), scheme: manager.GetScheme()})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
