// An elector of client-go's on a Lease: what tests/election lets Mainstay's campaign against.
//
//	elector KUBECONFIG NAMESPACE NAME IDENTITY LEASE RENEW RETRY
//
// Prints a line for each change, with the time in Unix nanoseconds: "NANOS leading",
// "NANOS lost" or "NANOS leader WHO". Releases the Lease on SIGTERM.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func say(format string, args ...any) {
	fmt.Printf("%d %s\n", time.Now().UnixNano(), fmt.Sprintf(format, args...))
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func main() {
	if len(os.Args) != 8 {
		fmt.Fprintln(os.Stderr, "usage: elector KUBECONFIG NAMESPACE NAME IDENTITY LEASE RENEW RETRY")
		os.Exit(2)
	}
	duration := func(argument int) time.Duration { return must(time.ParseDuration(os.Args[argument])) }
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	config := must(clientcmd.BuildConfigFromFlags("", os.Args[1]))
	client := must(kubernetes.NewForConfig(config))
	identity := os.Args[4]
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: os.Args[2], Name: os.Args[3]},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		ReleaseOnCancel: true,
		LeaseDuration:   duration(5),
		RenewDeadline:   duration(6),
		RetryPeriod:     duration(7),
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { say("leading") },
			OnStoppedLeading: func() { say("lost") },
			OnNewLeader:      func(who string) { say("leader %s", who) },
		},
	})
}
