package main

import (
	"fmt"
	"slices"
	gosync "sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What both queues can do.
type queue interface {
	Get() (reconcile.Request, bool)
	Done(reconcile.Request)
	ShutDown()
}

func request(n int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{
		Namespace: fmt.Sprintf("ns-%d", n%10), Name: fmt.Sprintf("pod-%07d", n)}}
}

func queues() {
	fifo := func() (queue, func(reconcile.Request, int)) {
		q := workqueue.NewTyped[reconcile.Request]()
		return q, func(key reconcile.Request, _ int) { q.Add(key) }
	}
	byPriority := func() (queue, func(reconcile.Request, int)) {
		q := priorityqueue.New[reconcile.Request]("peers")
		return q, func(key reconcile.Request, priority int) {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priority)}, key)
		}
	}
	for system, build := range map[string]func() (queue, func(reconcile.Request, int)){
		"client-go": fifo, "controller-runtime": byPriority,
	} {
		cycle(system, build)
		contended(system, build)
		latency(system, build)
	}
}

// Adds all keys, then takes and gives back each.
func cycle(system string, build func() (queue, func(reconcile.Request, int))) {
	q, add := build()
	defer q.ShutDown()
	var keys []reconcile.Request
	for n := range queueKeys {
		keys = append(keys, request(n))
	}
	used, _ := measured(cycles*queueKeys, func() {
		for range cycles {
			for n, key := range keys {
				add(key, n%3)
			}
			for range keys {
				key, _ := q.Get()
				q.Done(key)
			}
		}
	})
	report("queue_cycle", system, used, "ns CPU")
}

// Eight workers take and give back while one goroutine adds.
func contended(system string, build func() (queue, func(reconcile.Request, int))) {
	q, add := build()
	var keys []reconcile.Request
	for n := range queueKeys * cycles {
		keys = append(keys, request(n))
	}
	var left atomic.Int64
	left.Store(int64(len(keys)))
	done := make(chan struct{})
	for range 8 {
		go func() {
			for {
				key, ended := q.Get()
				if ended {
					return
				}
				q.Done(key)
				if left.Add(-1) == 0 {
					close(done)
				}
			}
		}()
	}
	used, wall := measured(len(keys), func() {
		for _, key := range keys {
			add(key, 0)
		}
		<-done
	})
	q.ShutDown()
	report("queue_contended_8", system, wall, "ns")
	report("queue_contended_8_cpu", system, used, "ns CPU")
}

func latency(system string, build func() (queue, func(reconcile.Request, int))) {
	q, add := build()
	var lock gosync.Mutex
	var added time.Time
	var times []time.Duration
	for range 8 {
		go func() {
			for {
				key, ended := q.Get()
				if ended {
					return
				}
				lock.Lock()
				times = append(times, time.Since(added))
				lock.Unlock()
				q.Done(key)
			}
		}()
	}
	key := request(0)
	for range events {
		time.Sleep(pause)
		lock.Lock()
		added = time.Now()
		lock.Unlock()
		add(key, 0)
	}
	time.Sleep(pause)
	q.ShutDown()
	lock.Lock()
	defer lock.Unlock()
	slices.Sort(times)
	report("idle_latency_p99", system, float64(times[len(times)*99/100].Nanoseconds()), "ns")
}

func pod(n int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name:            fmt.Sprintf("pod-%07d", n),
		Namespace:       fmt.Sprintf("ns-%03d", n/perNamespace),
		UID:             types.UID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", n)),
		ResourceVersion: fmt.Sprint(1_000_000 + n),
		Labels:          map[string]string{"app": "orders"},
		OwnerReferences: []metav1.OwnerReference{{
			Kind: "ReplicaSet", Name: "orders", Controller: ptr.To(true),
			UID: types.UID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", 0xa0000000+n/3)),
		}},
	}}
}

func stores() {
	var all []*corev1.Pod
	for n := range objects {
		all = append(all, pod(n))
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers())
	used, _ := measured(objects, func() {
		for _, pod := range all {
			_ = indexer.Add(pod)
		}
	})
	report("store_apply_100k", "client-go", used, "ns CPU")
	var keys []string
	for n := range objects {
		m := n * 61_403 % objects
		keys = append(keys, fmt.Sprintf("ns-%03d/pod-%07d", m/perNamespace, m))
	}
	used, _ = measured(3*objects, func() {
		for range 3 {
			for _, key := range keys {
				if _, found, _ := indexer.GetByKey(key); !found {
					panic(key)
				}
			}
		}
	})
	report("store_get_100k", "client-go", used, "ns CPU")
	used, _ = measured(lookups, func() {
		for n := range lookups {
			found, _ := indexer.ByIndex(cache.NamespaceIndex, fmt.Sprintf("ns-%03d", n*997%objects/perNamespace))
			if len(found) != perNamespace {
				panic(len(found))
			}
		}
	})
	report("index_500_of_100k", "client-go", used, "ns CPU")
}
