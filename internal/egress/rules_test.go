package egress_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
)

// TestRules: what stands in the file counts from the next request on, for Do and for clients alike;
// a file that cannot be read lets nothing out, and one that is gone adds nothing.
func TestRules(t *testing.T) {
	t.Parallel()
	server := serve(t, "a.test", func(http.ResponseWriter, *http.Request) {})
	path := filepath.Join(t.TempDir(), egress.RulesFile)
	both(t, newGuard(t, egress.Config{File: path}), func(t *testing.T, fetch func(perdure.WebRequest) (int, error)) {
		for _, step := range []struct {
			name string
			text string // empty: no file
			rule string // that denies; empty: the request leaves
		}{
			{"no file", "", ""},
			{"blocked", `{"blocked":["a.test"]}`, perdure.RuleBlocked},
			{"allowed", `{"allowed":["a.test"]}`, ""},
			{"not allowed", `{"allowed":["b.test"]}`, perdure.RuleAllowed},
			{"no JSON", `{"allowed":["a.test"]`, perdure.RuleBlocked},
			{"an unknown field", `{"allow":["a.test"]}`, perdure.RuleBlocked},
			{"a pattern that is none", `{"blocked":["https://x/?q"]}`, perdure.RuleBlocked},
			{"a private host that is none", `{"private":["x/y"]}`, perdure.RuleBlocked},
			{"mended", `{"private":["127.0.0.1"]}`, ""},
			{"gone", "", ""},
			{"back", `{"blocked":["b.test"]}`, ""},
			{"written in place, as long as before", `{"blocked":["a.test"]}`, perdure.RuleBlocked},
		} {
			var err error
			switch {
			case step.text == "":
				err = os.RemoveAll(path)
			case strings.Contains(step.name, "in place"):
				err = errors.Join(os.WriteFile(path, []byte(step.text), 0o600), os.Chtimes(path, time.Time{}, time.Now().Add(time.Second)))
			default:
				err = errors.Join(os.WriteFile(path+".new", []byte(step.text), 0o600), os.Rename(path+".new", path))
			}
			if err != nil {
				t.Fatal(err)
			}
			switch _, err := fetch(perdure.WebRequest{URL: server}); {
			case step.rule == "" && err != nil:
				t.Errorf("%s: %v", step.name, err)
			case step.rule != "":
				if got := egressError(t, err); got.Rule != step.rule || got.Layer != perdure.LayerOperator || got.Code != perdure.EgressDenied {
					t.Errorf("%s: got %+v", step.name, got)
				}
			}
		}
	})
}

// TestRulesOpenOneHost: a private host of the rules is open to tools at that port, and to no other
// purpose (EG5).
func TestRulesOpenOneHost(t *testing.T) {
	t.Parallel()
	server := serve(t, "127.0.0.1", func(http.ResponseWriter, *http.Request) {})
	other := newTripwire(t)
	path := filepath.Join(t.TempDir(), egress.RulesFile)
	if err := (egress.Rules{Private: []string{strings.TrimPrefix(server, "http://")}}).Write(path); err != nil {
		t.Fatal(err)
	}
	g := newGuard(t, egress.Config{File: path})

	_, opened := g.Do(t.Context(), perdure.WebRequest{URL: server})
	_, purpose := g.Do(t.Context(), perdure.WebRequest{URL: server, Purpose: "webhook"})
	_, port := g.Do(t.Context(), perdure.WebRequest{URL: "http://127.0.0.1:" + other.port})
	_, narrowed := g.Do(t.Context(), perdure.WebRequest{URL: server, List: perdure.NetworkList{Blocked: []string{"127.0.0.1"}}})

	if opened != nil {
		t.Error(opened)
	}
	wants(t, purpose, perdure.EgressDenied, perdure.RuleAddress)
	wants(t, port, perdure.EgressDenied, perdure.RuleAddress)
	wants(t, narrowed, perdure.EgressDenied, perdure.RuleBlocked)
	if got := egressError(t, narrowed); got.Layer != perdure.LayerSession || other.hits.Load() != 0 {
		t.Errorf("got the layer %q and %d connections", got.Layer, other.hits.Load())
	}
}

// TestRulesWrite: what cannot be obeyed is refused and leaves the file as it is.
func TestRulesWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), egress.RulesFile)
	good := egress.Rules{Blocked: []string{"a.test"}}
	if err := good.Write(path); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []egress.Rules{{Allowed: []string{"*"}}, {Blocked: []string{"a b"}}, {Private: []string{"http://x"}}} {
		if err := bad.Write(path); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if kept, err := egress.ReadRules(path); err != nil || len(kept.Blocked) != 1 || kept.Blocked[0] != "a.test" || kept.Allowed != nil {
		t.Errorf("got %+v, %v", kept, err)
	}
}

// TestTry: it returns where a request would go, or the error of a request, and connects to nothing.
func TestTry(t *testing.T) {
	t.Parallel()
	wire, post := newTripwire(t), new(gatePost)
	g := newGuard(t, egress.Config{Resolver: names{"p.test": {"8.8.8.8", "1.1.1.1"}, "mixed.test": {"8.8.8.8", "127.0.0.1"}}})
	g.LastGate(post.see)

	found, err := g.Resolve(t.Context(), "", "https://p.test/x", perdure.NetworkList{})
	_, mixed := g.Resolve(t.Context(), "", "http://mixed.test:"+wire.port, perdure.NetworkList{})
	_, listed := g.Resolve(t.Context(), "", "https://p.test/", perdure.NetworkList{Allowed: []string{"b.test"}})

	if err != nil || len(found) != 2 || found[0].String() != "8.8.8.8:443" {
		t.Errorf("got %v, %v", found, err)
	}
	wants(t, mixed, perdure.EgressDenied, perdure.RuleAddress)
	wants(t, listed, perdure.EgressDenied, perdure.RuleAllowed)
	if len(post.take()) != 0 || wire.hits.Load() != 0 {
		t.Error("a connection was tried")
	}
}

// TestSigning: a hop is signed when it asks for it and may leave, each hop anew; the hook changes
// fields of the header and nothing else; what has to be signed and cannot be is not sent (EG1).
func TestSigning(t *testing.T) {
	t.Parallel()
	var end recorder
	second := serve(t, "b.test", func(_ http.ResponseWriter, r *http.Request) { end.note(r) })
	first := serve(t, "a.test", func(w http.ResponseWriter, r *http.Request) {
		end.note(r)
		http.Redirect(w, r, second+"/next", http.StatusTemporaryRedirect)
	})
	signed := 0
	hook := func(_ context.Context, hop *http.Request, body []byte) error {
		signed++
		if string(body) == "refuse" {
			return errors.New("no key for this")
		}
		hop.Header.Set("Signature", hop.Method+" "+hop.URL.Host+" "+string(body))
		hop.Header.Set("Transfer-Encoding", "chunked")
		hop.Host, hop.URL.Host, hop.Method = "evil.test", "evil.test", "DELETE"
		return nil
	}
	signs, plain := newGuard(t, egress.Config{Sign: hook}), newGuard(t, egress.Config{})
	post := func(g *egress.Guard, how perdure.EgressSigning, url, body string) error {
		_, err := g.Do(t.Context(), perdure.WebRequest{Method: "POST", URL: url, Body: []byte(body), Signing: how})
		return err
	}

	if err := post(signs, perdure.SigningRequired, first, "in"); err != nil || signed != 2 {
		t.Fatalf("%v, signed %d times, want each of two hops", err, signed)
	}
	for _, r := range end.requests() {
		if want := "POST " + r.Host + " in"; r.Header.Get("Signature") != want || r.Method != "POST" || len(r.TransferEncoding) != 0 {
			t.Errorf("got %s %q, %v", r.Method, r.Header.Get("Signature"), r.TransferEncoding)
		}
	}
	for name, err := range map[string]error{
		"not asked": post(signs, "", second, "a"), "disabled": post(signs, perdure.SigningDisabled, second, "b"), "no signer": post(plain, perdure.SigningDefault, second, "c"),
	} {
		if r, _ := end.last(t); err != nil || r.Header.Get("Signature") != "" {
			t.Errorf("%s: %v, %q", name, err, r.Header.Get("Signature"))
		}
	}
	before := len(end.requests())
	wants(t, post(plain, perdure.SigningRequired, second, "d"), perdure.EgressUnsigned, "")
	wants(t, post(signs, perdure.SigningDefault, second, "refuse"), perdure.EgressUnsigned, "")
	wants(t, post(signs, "perhaps", second, "e"), perdure.EgressInvalid, "")
	if err := post(signs, perdure.SigningRequired, "http://inward.test/", "f"); egressError(t, err).Code != perdure.EgressDenied {
		t.Error(err)
	}
	if len(end.requests()) != before {
		t.Error("something was sent that was not signed")
	}
}
