package demo

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mccutchen/go-httpbin/v2/httpbin"
)

// service is an HTTPS service on loopback with a certificate authority of its own. Behind its door stands go-httpbin,
// whose /headers sends back every header it got: the worst a service can do to a credential.
type service struct {
	srv    *http.Server
	origin string // https://127.0.0.1:PORT
	ca     string // PEM

	mu      sync.Mutex
	want    [sha256.Size]byte // of the Authorization header it lets in
	arrived int
	carried int
}

// startService listens until close. It lets nobody in before expect.
func startService() (*service, error) {
	ca, cert, err := certify()
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s := &service{origin: "https://" + l.Addr().String(), ca: ca}
	s.srv = &http.Server{Handler: s.count(httpbin.New()), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go s.srv.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}))
	return s, nil
}

// expect says which header opens the door.
func (s *service) expect(authorization string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want = sha256.Sum256([]byte(authorization))
}

// count keeps the ledger: every request that arrives, and those that carry the credential. The others get a 401.
func (s *service) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		s.mu.Lock()
		ok := subtle.ConstantTimeCompare(got[:], s.want[:]) == 1
		s.arrived++
		if ok {
			s.carried++
		}
		s.mu.Unlock()
		if !ok {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ledger is what arrived so far, and how much of it carried the credential.
func (s *service) ledger() (arrived, carried int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived, s.carried
}

func (s *service) close() { s.srv.Close() }

// certify makes a certificate authority, and a certificate by it for 127.0.0.1.
func certify() (caPEM string, cert tls.Certificate, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", cert, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", cert, err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "demo authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 0, 2),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return "", cert, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "demo service"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return "", cert, err
	}
	caPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}))
	return caPEM, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
