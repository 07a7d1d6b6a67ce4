// pause holds a pod's namespaces open and reaps its orphans.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop, child := make(chan os.Signal, 1), make(chan os.Signal, 8)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	signal.Notify(child, syscall.SIGCHLD)
	for {
		select {
		case <-stop:
			return
		case <-child:
			reap()
		}
	}
}

func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}
