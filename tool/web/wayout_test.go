package web_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/web"
)

// wayOut is a way out that fails.
type wayOut struct{ err error }

// Do fails.
func (w wayOut) Do(context.Context, perdure.WebRequest) (perdure.WebResponse, error) {
	return perdure.WebResponse{}, w.err
}

// TestErrors compares what the model reads of each error of a way out. No address is in it but one
// that was asked for.
func TestErrors(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]*perdure.EgressError{
		"URL not allowed by network policy: a.example":                                        {Code: perdure.EgressDenied, Host: "a.example", Rule: "address", Text: "10.1.2.3 is private"},
		"Invalid URL: the port is none":                                                       {Code: perdure.EgressInvalid, Host: "a.example", Text: "the port is none"},
		"Could not reach a.example: the host does not exist.":                                 {Code: perdure.EgressTransport, Host: "a.example", Text: "10.1.2.3", Err: &net.DNSError{Err: "no such host", Server: "10.1.2.3", IsNotFound: true}},
		"Could not reach a.example: it did not answer in time. Try again later.":              {Code: perdure.EgressTransport, Host: "a.example", Text: "10.1.2.3", Err: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}},
		"Could not reach a.example: the connection failed or took too long. Try again later.": {Code: perdure.EgressTransport, Host: "a.example", Text: "10.1.2.3", Err: errors.New("10.1.2.3 said no")},
	} {
		got := run(t, session{tool.NewRegistry(web.WebFetch()), tool.Env{Egress: wayOut{err: err}}}, "web_fetch", `{"url":"http://a.example"}`)
		if got != `{"error":"`+want+`"}` {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// loopback resolves every name to this machine.
type loopback struct{}

// LookupNetIP returns 127.0.0.1.
func (loopback) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

// TestWeatherServerOfOperator wants the name of an operator's own server in the error, since it is
// the one that was configured.
func TestWeatherServerOfOperator(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(server.Close)
	host := "weather.test" + server.URL[strings.LastIndex(server.URL, ":"):]
	g, err := egress.New(egress.Config{Resolver: loopback{}, Listed: []egress.Listing{{Purpose: web.Purpose, Host: host}}})
	if err != nil {
		t.Fatal(err)
	}

	got := run(t, session{tools(t, "http://"+host), tool.Env{Egress: g}}, "get_weather", `{"location":"Berlin"}`)

	want(t, got, `{"error":"HTTP 502 from weather.test"}`)
}
