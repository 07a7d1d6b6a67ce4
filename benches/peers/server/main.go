// A server of one collection of pods, the same for all that are measured: it lists, streams and
// watches as a kube-apiserver does, in JSON and protobuf, over TLS, but sends what is encoded
// already, so that it costs the clients' machine as little as may be.
//
//	server FIXTURE COUNT FOLDER    writes its certificate and kubeconfig to FOLDER
//
// The driver's own requests: POST /control/change?count=N changes N pods, POST /control/expire ends
// all watches with 410 Gone, GET /control/state says how many watches are open and lists were read.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A certificate of its own on 127.0.0.1.
func certificate() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "peers"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(48 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, authority, nil
}

func run() error {
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	fixture, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	pods, err := newPods(fixture, count)
	if err != nil {
		return err
	}
	pair, authority, err := certificate()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	folder := os.Args[3]
	if err := os.WriteFile(filepath.Join(folder, "ca.crt"), authority, 0o600); err != nil {
		return err
	}
	kubeconfig := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {"+
		"server: 'https://%s', certificate-authority: %s/ca.crt}}], users: [{name: a, user: {token: none}}], "+
		"contexts: [{name: a, context: {cluster: a, user: a}}]}", listener.Addr(), folder)
	if err := os.WriteFile(filepath.Join(folder, "kubeconfig"), []byte(kubeconfig), 0o600); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/pods", pods.serve)
	mux.HandleFunc("/control/", pods.control)
	server := &http.Server{
		Handler:   mux,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}},
		ErrorLog:  log.New(os.Stderr, "", 0),
	}
	fmt.Println("ready")
	return server.ServeTLS(listener, "", "")
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
