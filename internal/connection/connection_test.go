package connection_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/connection"
	"github.com/perdure/perdure/internal/connection/oauthtest"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// ada is the user of these tests.
var ada = store.ConnectionKey{User: "ada", Provider: "demo"}

// rig is two processes that share a store and a keyring.
type rig struct {
	t          *testing.T
	provider   *oauthtest.Provider
	ports      sessionport.Config
	one, other *connection.Connections
}

func newRig(t *testing.T) rig {
	t.Helper()
	keys, err := secret.Create(filepath.Join(t.TempDir(), "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	r := rig{t: t, provider: oauthtest.New(t), ports: sessionport.Config{Store: memory.New(memory.Config{}), Keys: keys}}
	cfg := connection.Config{Ports: r.ports, Providers: func() (all connection.Providers, err error) {
		err = perdure.DecodeJSON([]byte(r.provider.Config("demo", "https://perdure.example/callback")), &all)
		return all, errors.Join(err, all.Check())
	}}
	r.one, r.other = connection.New(cfg), connection.New(cfg)
	return r
}

// connects authorizes ada.
func (r rig) connects() {
	r.t.Helper()
	begun, err := r.one.Begin(r.t.Context(), connection.Request{Key: ada})
	if err != nil {
		r.t.Fatal(err)
	}
	back, err := r.provider.Answer(begun.URL)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.other.Finish(r.t.Context(), connection.Answer{State: begun.State, Code: back.Get("code")}); err != nil {
		r.t.Fatal(err)
	}
}

// token uses the connection of ada.
func (r rig) token(c *connection.Connections) (token string, err error) {
	r.t.Helper()
	var row store.Connection
	err = r.ports.Store.View(r.t.Context(), func(v store.Reader) (err error) {
		row, _, err = v.Directory().Connections().Get(ada)
		return err
	})
	if err == nil {
		token, err = c.Token(r.t.Context(), row)
	}
	return token, err
}

// TestFlow: a user authorizes, each state counts once, and only for its user.
func TestFlow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	begun, err := r.one.Begin(t.Context(), connection.Request{Key: ada})
	if err != nil {
		t.Fatal(err)
	}
	back, err := r.provider.Answer(begun.URL)
	if err != nil || back.Get("state") != begun.State {
		t.Fatalf("came back with %v, %v", back, err)
	}
	answer := connection.Answer{State: begun.State, Code: back.Get("code")}
	somebodyElse := answer
	somebodyElse.Mine = func(key store.ConnectionKey, _ string) bool { return key.User == "bob" }
	if _, err := r.one.Finish(t.Context(), somebodyElse); !errors.Is(err, perdure.NotFound) {
		t.Errorf("another user finished it: %v", err)
	}
	if _, err := r.one.Finish(t.Context(), connection.Answer{State: begun.State + "x", Code: answer.Code}); !errors.Is(err, perdure.NotFound) {
		t.Errorf("another state: %v", err)
	}

	made, err := r.other.Finish(t.Context(), answer)

	if err != nil || made.Key != ada || !made.Details.OAuth || strings.Join(made.Details.Scopes, " ") != "profile read" ||
		strings.Join(made.Details.Hosts, " ") != "127.0.0.1" || made.Details.ExpiresAt.IsZero() {
		t.Errorf("got %+v, %v", made, err)
	}
	if _, err := r.one.Finish(t.Context(), answer); !errors.Is(err, perdure.NotFound) {
		t.Errorf("a state counts twice: %v", err)
	}
	all, err := r.one.List(t.Context(), "", "")
	if err != nil || len(all) != 1 {
		t.Errorf("listed %+v, %v", all, err)
	}
	token, err := r.token(r.one)
	if err != nil || !strings.HasPrefix(token, "access-token") {
		t.Errorf("token %q, %v", token, err)
	}
}

// TestFlowIsRefused: who refuses, or sends a browser elsewhere, connects nothing.
func TestFlowIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, redirect := range []string{"https://evil.example/callback", "http://evil.example/callback", "http://localhost:1/callback",
		"http://127.0.0.1.evil.example/", "http://me@127.0.0.1/", "javascript:alert(1)", "http://127.0.0.1/#x"} {
		if _, err := r.one.Begin(t.Context(), connection.Request{Key: ada, RedirectURL: redirect}); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: %v", redirect, err)
		}
	}
	if _, err := r.one.Begin(t.Context(), connection.Request{Key: store.ConnectionKey{User: "ada", Provider: "none"}}); !errors.Is(err, perdure.NotFound) {
		t.Errorf("unknown provider: %v", err)
	}
	r.provider.Deny("access_denied")
	begun, err := r.one.Begin(t.Context(), connection.Request{Key: ada, RedirectURL: "http://127.0.0.1:4711/callback"})
	if err != nil {
		t.Fatal(err)
	}
	back, err := r.provider.Answer(begun.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []connection.Answer{
		{State: begun.State, Error: back.Get("error")},
		{State: begun.State, Code: "code-0001"}, // the state is used up
	} {
		if _, err := r.one.Finish(t.Context(), answer); err == nil {
			t.Errorf("%+v connected", answer)
		}
	}
	if all, err := r.one.List(t.Context(), "", ""); err != nil || len(all) != 0 {
		t.Errorf("listed %+v, %v", all, err)
	}
}

// TestRefreshOnce: however many callers in two processes use a token that is about to expire, one
// of them refreshes it, and all get a valid one.
func TestRefreshOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.Live(1) // half a second later it must be refreshed
	r.connects()
	r.provider.Live(3600)
	r.untilStale()
	var group sync.WaitGroup
	tokens := make([]string, 20)
	for i := range tokens {
		c := []*connection.Connections{r.one, r.other}[i%2]
		group.Go(func() {
			var err error
			if tokens[i], err = r.token(c); err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	group.Wait()

	last, err := r.token(r.other)
	if err != nil || r.provider.Refreshes() != 1 {
		t.Errorf("%d refreshes, %v", r.provider.Refreshes(), err)
	}
	first := r.provider.Tokens()[2] // the provider has numbered the code, the first tokens and the next ones
	for i, token := range tokens {
		if token != first && token != last { // the first one is valid a little longer
			t.Errorf("caller %d got %q, want %q or %q", i, token, first, last)
		}
	}
}

// until waits for a condition.
func (r rig) until(holds func() bool) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-r.t.Context().Done():
			r.t.Fatal("the test ended first")
		}
	}
}

// untilStale waits until the token of ada has to be refreshed.
func (r rig) untilStale() {
	r.t.Helper()
	r.until(func() bool {
		account, err := r.one.Get(r.t.Context(), ada)
		now, failed := r.one.Now(r.t.Context())
		if err = errors.Join(err, failed); err != nil {
			r.t.Fatal(err)
		}
		return !now.Before(account.Details.RefreshAt)
	})
}

// TestRefreshEndsWithoutItsCaller: a caller that gives up does not waste the refresh token.
func TestRefreshEndsWithoutItsCaller(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.Live(1)
	r.connects()
	r.provider.Live(3600)
	r.untilStale()
	release := r.provider.Hold(t)
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	row, err := rowOf(r)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, err := r.one.Token(ctx, row); ended <- err }()
	r.until(func() bool { return r.provider.Refreshes() > 0 }) // the provider has the request
	giveUp()
	release()
	if err := <-ended; err != nil {
		t.Errorf("the refresh ended with %v", err)
	}

	token, err := r.token(r.other)

	if err != nil || r.provider.Refreshes() != 1 || token == "" {
		t.Errorf("got %q after %d refreshes, %v", token, r.provider.Refreshes(), err)
	}
}

func rowOf(r rig) (row store.Connection, err error) {
	err = r.ports.Store.View(r.t.Context(), func(v store.Reader) (err error) {
		row, _, err = v.Directory().Connections().Get(ada)
		return err
	})
	return row, err
}

// TestRefusedRefreshExpires: a connection whose refresh is refused is expired, for all processes,
// until its user connects again.
func TestRefusedRefreshExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.Live(1)
	r.connects()
	r.untilStale()
	r.provider.Revoke()
	for _, c := range []*connection.Connections{r.one, r.other} {
		if token, err := r.token(c); !errors.Is(err, perdure.NotFound) || token != "" {
			t.Errorf("got %q, %v", token, err)
		}
	}
	now, err := r.one.Now(t.Context())
	account, failed := r.one.Get(t.Context(), ada)
	if err != nil || failed != nil || !account.HasExpired(now) || !strings.Contains(account.Details.Expired, "invalid_grant") {
		t.Errorf("got %+v, %v, %v", account, err, failed)
	}

	r.provider.Live(3600)
	r.connects()

	if token, err := r.token(r.other); err != nil || token == "" {
		t.Errorf("connected again: got %q, %v", token, err)
	}
}

// TestUnreachableProvider: while the provider does not answer, a token that is still valid is used,
// and one that is not leaves the connection as it is.
func TestUnreachableProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.Live(2)
	r.connects()
	r.provider.Close()
	r.untilStale()
	account, err := r.one.Get(t.Context(), ada)
	if err != nil {
		t.Fatal(err)
	}
	r.until(func() bool {
		token, err := r.token(r.one)
		now, failed := r.one.Now(t.Context())
		if failed != nil {
			t.Fatal(failed)
		}
		if err == nil && token != "" {
			return false // it is still valid
		}
		if !errors.Is(err, perdure.Unavailable) || now.Before(account.Details.ExpiresAt) {
			t.Errorf("got %q, %v at %v of %v", token, err, now, account.Details.ExpiresAt)
		}
		return true
	})
	now, err := r.one.Now(t.Context())
	if account, failed := r.one.Get(t.Context(), ada); err != nil || failed != nil || account.HasExpired(now) {
		t.Errorf("got %+v, %v, %v", account, err, failed)
	}
}

// TestPut: a token that a user gives is used as it is, and what is wrong is refused without it.
func TestPut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	made, err := r.one.Put(t.Context(), connection.Write{Key: ada, Token: "personal", Hosts: []string{"api.demo.example"}})
	if err != nil || made.Details.OAuth {
		t.Fatalf("got %+v, %v", made, err)
	}
	if token, err := r.token(r.other); err != nil || token != "personal" {
		t.Errorf("got %q, %v", token, err)
	}
	for what, w := range map[string]connection.Write{
		"no token":              {Key: ada},
		"a line break":          {Key: ada, Token: "do-not-show\n"},
		"a host with a scheme":  {Key: ada, Token: "do-not-show", Hosts: []string{"https://api.example"}},
		"no provider":           {Key: store.ConnectionKey{User: "ada"}, Token: "do-not-show"},
		"a user of the runtime": {Key: store.ConnectionKey{User: "perdure:flow", Provider: "x"}, Token: "do-not-show"},
	} {
		_, err := r.one.Put(t.Context(), w)
		if !errors.Is(err, perdure.Invalid) || strings.Contains(fmt.Sprint(err), "do-not-show") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for want := range 2 {
		if err := r.one.Remove(t.Context(), ada); errors.Is(err, perdure.NotFound) != (want == 1) {
			t.Errorf("remove %d: %v", want, err)
		}
	}
}
