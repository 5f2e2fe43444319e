package program

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// startProxy terminates TLS in front of a server. A client needs a certificate of the authority.
func startProxy(ts *testscript.TestScript, server string) string {
	authority := newIdentity(ts, nil)
	client, stranger := newIdentity(ts, authority), newIdentity(ts, newIdentity(ts, nil))
	client.write(ts, "client.pem", "client.key")
	stranger.write(ts, "other.pem", "other.key")
	authority.write(ts, "ca.pem", "ca.key")
	trusted := x509.NewCertPool()
	trusted.AddCert(authority.cert)
	own := newIdentity(ts, authority)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{own.cert.Raw}, PrivateKey: own.key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: trusted, NextProtos: []string{"h2"},
	})
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() }) // nobody waits for it
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go forward(conn, server)
		}
	}()
	return l.Addr().String()
}

// forward copies what comes in to the server, and back, until one of them ends.
func forward(conn net.Conn, server string) {
	defer conn.Close()
	to, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, conn) // a refused certificate ends here
		_ = to.Close()
	}()
	_, _ = io.Copy(conn, to) // the client sees the end
}

// identity is a certificate and its key.
type identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newIdentity returns a certificate that an authority signed; nil: it is an authority.
func newIdentity(ts *testscript.TestScript, authority *identity) *identity {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	ts.Check(err)
	form := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := form, key
	if authority == nil {
		form.IsCA, form.BasicConstraintsValid, form.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		parent, signer = authority.cert, authority.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, form, parent, &key.PublicKey, signer)
	ts.Check(err)
	cert, err := x509.ParseCertificate(raw)
	ts.Check(err)
	return &identity{cert, key}
}

// write writes the certificate and the key to files of the script.
func (i *identity) write(ts *testscript.TestScript, cert, key string) {
	der, err := x509.MarshalPKCS8PrivateKey(i.key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(cert), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.cert.Raw}), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(key), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}
