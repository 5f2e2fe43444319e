//go:build soak

package app

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBehindNginx: nginx accepts the configuration of the page, and passes a server's responses
// through: pages, problems whose type can be opened, and a stream that sends data before it ends,
// also below a path.
func TestBehindNginx(t *testing.T) {
	t.Parallel()
	program := nginxProgram(t)
	dir := t.TempDir()
	authority := selfSigned(t, dir)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := listener.Addr().String()
	d := newDoorway(t, map[string]string{"hello.yaml": "steps: [{text: Hello., repeat: true}]\n"})
	d.serve = []string{"--public-url", "https://" + front + "/perdure"}
	d.start()
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(nginxConfig(t, dir, front, strings.TrimPrefix(d.url, "http://"))), 0o600); err != nil {
		t.Fatal(err)
	}
	startNginx(t, program, file, listener)

	client := &http.Client{Timeout: waitTime, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	ask := func(method, path, body, accept string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+front+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+d.token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", accept)
		got, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { got.Body.Close() })
		return got
	}
	whole := func(got *http.Response) string {
		t.Helper()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	for _, below := range []string{"", "/perdure"} {
		nginxBrowser{d, client, front, below}.signIn(t)
		made := ask("POST", below+"/v1/sessions", `{"agent":{"model":"scripted:`+filepath.Join(d.work, "hello.yaml")+`"}}`, "*/*")
		where, text := strings.TrimPrefix(made.Header.Get("Location"), "https://"+front), whole(made) // nginx makes the URL absolute
		if made.StatusCode != 201 || made.ProtoMajor != 2 || !strings.HasPrefix(where, below+"/v1/sessions/session_") {
			t.Fatalf("below %q: got %d, HTTP/%d, Location %q, %s", below, made.StatusCode, made.ProtoMajor, where, text)
		}
		var problem struct{ Type string }
		missing := whole(ask("GET", below+"/v1/tasks/task_nobody", "", "*/*"))
		if err := json.Unmarshal([]byte(missing), &problem); err != nil {
			t.Fatalf("%v in %s", err, missing)
		}
		path, inside := strings.CutPrefix(problem.Type, "https://"+front)
		path, anchor, _ := strings.Cut(path, "#")
		page := ask("GET", path, "", "text/html")
		if !inside || page.StatusCode != 200 || !strings.Contains(whole(page), `id="`+anchor+`"`) {
			t.Errorf("below %q: the type %s does not open: %d", below, problem.Type, page.StatusCode)
		}
		stream := bufio.NewReader(ask("GET", where+"/events?after=0", "", "text/event-stream").Body)
		if said := whole(ask("POST", where+"/messages", `{"content":[{"type":"text","text":"hello"}]}`, "*/*")); !strings.Contains(said, "message_id") {
			t.Fatalf("below %q: got %s", below, said)
		}
		for heard, line := "", ""; line != "event: turn.completed\n"; heard += line {
			if line, err = stream.ReadString('\n'); err != nil {
				t.Fatalf("below %q: the stream does not come through: %v after\n%s", below, err, heard)
			}
		}
	}
	noSecretIn(t, filepath.Join(dir, "access.log"))
}

// nginxProgram returns the path of nginx, which Debian keeps out of PATH.
func nginxProgram(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			t.Fatal("the page on nginx is tried with it: install it, or let make soak do it")
		}
	}
	return program
}

// nginxConfig is the configuration of the page, with addresses and files of this test.
func nginxConfig(t *testing.T, dir, front, back string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/behind-nginx.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?ms)^```nginx\n(.*?)^```$").FindAllSubmatch(page, -1)
	if len(found) != 2 {
		t.Fatalf("the page has %d configurations", len(found))
	}
	server := strings.TrimSuffix(strings.TrimSpace(string(found[0][1])), "}") + string(found[1][1]) + "}\n"
	for _, change := range []struct{ from, to string }{
		{"listen 443 ", "listen " + front + " "}, {"127.0.0.1:7373", back},
		{"/etc/ssl/perdure.pem", dir + "/cert.pem"}, {"/etc/ssl/perdure.key", dir + "/key.pem"},
	} {
		if !strings.Contains(server, change.from) {
			t.Fatalf("the page does not have %s", change.from)
		}
		server = strings.ReplaceAll(server, change.from, change.to)
	}
	temporary := ""
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += fmt.Sprintf("%s_temp_path %s/%s;\n", name, dir, name)
	}
	return fmt.Sprintf("daemon off;\nworker_processes 1;\npid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log %[1]s/access.log;\n%[2]s%[3]s}\n", dir, temporary, server)
}

// startNginx checks a configuration and runs nginx with it, on the address that the listener has
// reserved.
func startNginx(t *testing.T, program, file string, kept net.Listener) {
	t.Helper()
	front := kept.Addr().String()
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	args := []string{"-p", filepath.Dir(file), "-e", "stderr", "-c", file}
	if said, err := exec.CommandContext(t.Context(), program, append(args, "-t")...).CombinedOutput(); err != nil {
		t.Fatalf("nginx -t: %v\n%s", err, said)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // its worker ends with it
	cmd.WaitDelay = waitTime
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was stopped
	})
	for deadline := time.Now().Add(waitTime); ; {
		conn, err := net.Dial("tcp", front)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nginx does not listen: %v", err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// selfSigned writes a certificate for this machine and its key, and returns the pool that trusts
// it.
func selfSigned(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, own, own, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}
