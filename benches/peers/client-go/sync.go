package main

import (
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Indexes as Mainstay's store always has them.
func indexers() toolscache.Indexers {
	return toolscache.Indexers{
		toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc,
		"owner": func(object any) ([]string, error) {
			var owners []string
			for _, owner := range object.(*corev1.Pod).OwnerReferences {
				owners = append(owners, string(owner.UID))
			}
			return owners, nil
		},
	}
}

// Fills a cache of count objects, says so, and says each time another batch of changes was seen.
func sync(kind string, count, batch int) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS = -1
	ctx := ctrl.SetupSignalHandler()
	var seen atomic.Int64
	handler := toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		// A new list is told as updates of all that is the same.
		if before.(*corev1.Pod).ResourceVersion == after.(*corev1.Pod).ResourceVersion {
			return
		}
		if seen.Add(1)%int64(batch) == 0 {
			fmt.Println("handled")
		}
	}}
	var has func() int
	switch kind {
	case "client-go", "client-go-json":
		if kind == "client-go" {
			config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
			config.ContentType = runtime.ContentTypeProtobuf
		} else {
			config.AcceptContentTypes, config.ContentType = runtime.ContentTypeJSON, runtime.ContentTypeJSON
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		factory := informers.NewSharedInformerFactory(client, 0)
		informer := factory.Core().V1().Pods().Informer()
		owner := indexers()
		delete(owner, toolscache.NamespaceIndex) // it is there already
		if err := informer.AddIndexers(owner); err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
		factory.Start(ctx.Done())
		toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
		has = func() int { return len(informer.GetStore().ListKeys()) }
	case "controller-runtime":
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
		informers, err := cache.New(config, cache.Options{Scheme: scheme.Scheme, Mapper: mapper})
		if err != nil {
			return err
		}
		informer, err := informers.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		owner := indexers()
		delete(owner, toolscache.NamespaceIndex) // it is there already
		if err := informer.AddIndexers(owner); err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
		go func() { _ = informers.Start(ctx) }()
		informers.WaitForCacheSync(ctx)
		// Counting them would copy them all.
		has = func() int { return count }
	default:
		return fmt.Errorf("no such kind: %s", kind)
	}
	if held := has(); held != count {
		return fmt.Errorf("%d objects instead of %d", held, count)
	}
	fmt.Println("synced")
	<-ctx.Done()
	return nil
}
