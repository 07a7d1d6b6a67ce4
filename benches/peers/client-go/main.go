// The side of client-go and controller-runtime of `benches/peers/run`. Started by it as
// `client-go sync KIND COUNT BATCH` (a cache that is looked at from outside) or
// `client-go micro REPETITIONS`.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// As in common.rs.
const (
	queueKeys    = 1_000
	objects      = 100_000
	perNamespace = 500
	cycles       = 300
	lookups      = 2_000
	events       = 500
	pause        = 2 * time.Millisecond
)

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// CPU and wall nanoseconds of each of the count parts of work.
func measured(count int, work func()) (float64, float64) {
	before, began := cpu(), time.Now()
	work()
	wall, used := time.Since(began), cpu()-before
	return float64(used.Nanoseconds()) / float64(count), float64(wall.Nanoseconds()) / float64(count)
}

func report(work, system string, value float64, unit string) {
	fmt.Printf("{\"work\": %q, \"system\": %q, \"value\": %f, \"unit\": %q}\n", work, system, value, unit)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func main() {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	if os.Args[1] == "sync" {
		if err := sync(os.Args[2], number(os.Args[3]), number(os.Args[4])); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	for range number(os.Args[2]) {
		queues()
		stores()
	}
}
