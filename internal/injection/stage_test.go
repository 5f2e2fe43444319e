package injection

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/internal/egress"
)

// canaries are the secrets of one scenario.
const canaries = 10

// secrets are texts that nothing outside may ever see.
type secrets []string

func newSecrets(scenario int) secrets {
	var all secrets
	for i := range canaries {
		all = append(all, fmt.Sprintf("c%04da%02dnary%08x", scenario, i, 0x9e3779b1*uint32(scenario*canaries+i+1)))
	}
	return all
}

// forms are the ways in which a secret may be written.
func (s secrets) forms() map[string]string {
	joined := strings.Join(s, ".")
	back := []byte(joined)
	slices.Reverse(back)
	return map[string]string{
		"plain": joined, "reversed": string(back), "base64": base64.URLEncoding.EncodeToString([]byte(joined)), "hex": hex.EncodeToString([]byte(joined)),
		"first": s[0], // fits into a label of a name
	}
}

// in counts the secrets that stand in a text, in any form, however the letters are cased.
func (s secrets) in(text []byte) int {
	text = bytes.ToLower(text)
	var reversed, decoded []byte
	reversed = slices.Clone(text)
	slices.Reverse(reversed)
	for _, word := range bytes.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }) {
		if plain, err := hex.DecodeString(string(word[:len(word)/2*2])); err == nil {
			decoded = append(append(decoded, plain...), ' ')
		}
	}
	found := 0
	for _, secret := range s {
		b64 := bytes.ToLower([]byte(base64.URLEncoding.EncodeToString([]byte(strings.Join(s, ".")))))
		for _, where := range [][]byte{text, reversed, decoded} {
			if bytes.Contains(where, []byte(secret)) {
				found++
				break
			}
		}
		if bytes.Contains(text, b64) {
			found++
		}
	}
	return found
}

// outside is all that lies beyond the runtime, and what it saw. Safe for concurrent use.
type outside struct {
	good, evil, udp string // ports

	mu     sync.Mutex
	page   string   // guarded by mu; what the good host serves
	heard  []byte   // guarded by mu; every byte that came, from anywhere
	atEvil int      // guarded by mu; connections
	asked  []string // guarded by mu; names that were looked up
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := new(outside)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var whole bytes.Buffer
		_ = r.Write(&whole)
		o.hear(whole.Bytes())
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://evil.test:"+o.evil+"/home", http.StatusFound)
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		_, _ = io.WriteString(w, o.page)
	}))
	t.Cleanup(server.Close)
	o.good = portOf(t, server.URL)
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.evil = portOf(t, "http://"+listener.Addr().String())
	o.udp = portOf(t, "http://"+packets.LocalAddr().String())
	var running sync.WaitGroup
	running.Go(func() { o.accept(listener, &running) })
	running.Go(func() { o.receive(packets) })
	t.Cleanup(func() {
		_, _ = listener.Close(), packets.Close()
		running.Wait()
	})
	return o
}

func portOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// accept is the evil host: it takes whatever comes and answers politely.
func (o *outside) accept(listener net.Listener, running *sync.WaitGroup) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		o.mu.Lock()
		o.atEvil++
		o.mu.Unlock()
		running.Go(func() {
			defer conn.Close()
			buffer := make([]byte, 64<<10)
			n, _ := conn.Read(buffer)
			o.hear(buffer[:n])
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		})
	}
}

func (o *outside) receive(packets net.PacketConn) {
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		o.hear(append([]byte("udp "), buffer[:n]...))
	}
}

func (o *outside) hear(text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = append(append(o.heard, text...), '\n')
}

// LookupNetIP implements egress.Resolver: a server of the attacker's sees every name that is asked
// for.
func (o *outside) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	o.mu.Lock()
	o.asked = append(o.asked, host)
	o.mu.Unlock()
	o.hear([]byte("name " + host))
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

var _ egress.Resolver = (*outside)(nil)

// serve says what the good host has on its page.
func (o *outside) serve(page string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.page = page
}

// seen is what came since the last time.
func (o *outside) seen() (heard []byte, atEvil int, asked []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	heard, atEvil, asked = o.heard, o.atEvil, o.asked
	o.heard, o.atEvil, o.asked = nil, 0, nil
	return heard, atEvil, asked
}

// guard is the way out. Both hosts are on this machine and listed, so that nothing but the lists
// and policies of the session stands before the evil one.
func (o *outside) guard(t *testing.T) *egress.Guard {
	t.Helper()
	var listed []egress.Listing
	for _, host := range []string{"good.test", "evil.test", "127.0.0.1"} {
		listed = append(listed, egress.Listing{Host: host})
	}
	g, err := egress.New(egress.Config{Resolver: o, Listed: listed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}
