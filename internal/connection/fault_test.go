package connection_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/connection"
	"github.com/perdure/perdure/internal/connection/oauthtest"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// clockRig is a rig whose clock the test sets, and whose providers can change.
type clockRig struct {
	rig
	logs *redact.Set

	mu        sync.Mutex
	ahead     time.Duration // guarded by mu; of the clock
	providers string        // guarded by mu; the configuration
	broken    error         // guarded by mu; why there is none
}

func newClockRig(t *testing.T) *clockRig {
	t.Helper()
	keys, err := secret.Create(filepath.Join(t.TempDir(), "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	r := &clockRig{logs: redact.NewSet()}
	began := time.Now()
	now := func() time.Time {
		r.mu.Lock()
		defer r.mu.Unlock()
		return began.Add(r.ahead)
	}
	r.rig = rig{t: t, provider: oauthtest.New(t),
		ports: sessionport.Config{Store: memory.New(memory.Config{Now: now}), Keys: keys, LogMask: r.logs}}
	r.providers = r.provider.Config("demo", "https://perdure.example/callback")
	cfg := connection.Config{Ports: r.ports, Providers: func() (all connection.Providers, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.broken != nil {
			return all, r.broken
		}
		err = perdure.DecodeJSON([]byte(r.providers), &all)
		return all, err
	}}
	r.one, r.other = connection.New(cfg), connection.New(cfg)
	return r
}

// pass lets time pass.
func (r *clockRig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead += d
}

// configure sets what the configuration of providers is, or why there is none.
func (r *clockRig) configure(providers string, broken error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.providers, r.broken = providers, broken
}

// account returns the connection of ada.
func (r *clockRig) account() connection.Account {
	r.t.Helper()
	a, err := r.one.Get(r.t.Context(), ada)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// expires connects ada with a token that has expired now.
func (r *clockRig) expires() {
	r.t.Helper()
	r.connects()
	r.pass(2 * time.Hour)
}

// TestRefusals: a connection expires only if the provider says that its grant has ended, whichever
// status the answer has. What the operator must mend, and what passes, leaves it as it is.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, answer := range []struct {
		status  int
		code    string
		expired bool
	}{
		{400, "invalid_grant", true},
		{200, "bad_refresh_token", true},
		{200, "invalid_refresh_token", true},
		{400, "interaction_required", true},
		{401, "invalid_client", false},
		{400, "unauthorized_client", false},
		{200, "incorrect_client_credentials", false},
		{400, "invalid_scope", false},
		{200, "temporarily_unavailable", false},
		{400, "", false},
		{401, "", false},
		{429, "", false},
		{503, "", false},
	} {
		r := newClockRig(t)
		r.expires()
		r.provider.Fail(answer.status, answer.code)

		token, err := r.token(r.one)

		want := perdure.Unavailable
		if answer.expired {
			want = perdure.NotFound
		}
		if token != "" || !errors.Is(err, want) || answer.code != "" && answer.status < 429 && !strings.Contains(err.Error(), answer.code) {
			t.Errorf("%+v: got %q, %v", answer, token, err)
		}
		if got := r.account().Details.Expired; (got != "") != answer.expired || answer.expired && !strings.Contains(got, answer.code) {
			t.Errorf("%+v: the connection has expired: %q", answer, got)
		}
		r.provider.Fail(0, "")
		r.pass(time.Minute)
		if token, err := r.token(r.other); (err == nil && token != "") == answer.expired {
			t.Errorf("%+v: afterwards got %q, %v", answer, token, err)
		}
	}
}

// TestRefusedCode: a code that the provider refuses is refused, whichever status the answer has,
// and a fault of the operator is none of the user.
func TestRefusedCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{"bad_verification_code": perdure.Denied, "invalid_grant": perdure.Denied,
		"incorrect_client_credentials": perdure.Unavailable} {
		r := newClockRig(t)
		begun, err := r.one.Begin(t.Context(), connection.Request{Key: ada})
		if err != nil {
			t.Fatal(err)
		}
		r.provider.Fail(200, code)

		_, err = r.one.Finish(t.Context(), connection.Answer{State: begun.State, Code: "a code"})

		if !errors.Is(err, want) || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: got %v", code, err)
		}
	}
}

// TestProvidersAreMissing: a provider that is not configured, or a file that cannot be used, is a
// fault of the operator: the connection is there, and no caller learns where the file is.
func TestProvidersAreMissing(t *testing.T) {
	t.Parallel()
	for what, broken := range map[string]error{"no provider": nil, "no file": errors.New("open /home/operator/oauth.json: denied")} {
		r := newClockRig(t)
		r.expires()
		r.configure(`{"providers":{}}`, broken)

		_, err := r.token(r.one)

		if !errors.Is(err, perdure.Unavailable) || errors.Is(err, perdure.NotFound) || strings.Contains(err.Error(), "/home") {
			t.Errorf("%s: got %v", what, err)
		}
		_, err = r.one.Begin(t.Context(), connection.Request{Key: ada})
		if broken != nil && (!errors.Is(err, perdure.Unavailable) || strings.Contains(err.Error(), "/home")) {
			t.Errorf("%s: began with %v", what, err)
		}
		r.configure(r.provider.Config("demo", ""), nil)
		if token, err := r.token(r.other); err != nil || token == "" {
			t.Errorf("%s: afterwards got %q, %v", what, token, err)
		}
	}
}

// TestFailingProvider: while a provider fails, one request an interval asks it, whoever and however
// many need the token. The others are refused at once.
func TestFailingProvider(t *testing.T) {
	t.Parallel()
	r := newClockRig(t)
	r.expires()
	before := r.provider.Requests()
	r.provider.Fail(503, "")
	var group sync.WaitGroup
	for i := range 10 {
		c := []*connection.Connections{r.one, r.other}[i%2]
		group.Go(func() {
			if token, err := r.token(c); token != "" || !errors.Is(err, perdure.Unavailable) {
				t.Errorf("got %q, %v", token, err)
			}
		})
	}
	group.Wait()
	if got := r.provider.Requests() - before; got != 1 {
		t.Errorf("the provider had %d requests", got)
	}
	r.provider.Fail(0, "")
	r.pass(time.Minute)

	if token, err := r.token(r.one); err != nil || token == "" {
		t.Errorf("afterwards got %q, %v", token, err)
	}
	if failed := r.account().Details; !failed.Refreshing.IsZero() || failed.Expired != "" {
		t.Errorf("got %+v", failed)
	}
}

// TestFlowsOfOneUser: a user who begins without an end keeps nobody else from beginning, and
// replaces the own oldest authorizations only.
func TestFlowsOfOneUser(t *testing.T) {
	t.Parallel()
	r := newClockRig(t)
	begin := func(key store.ConnectionKey) string {
		t.Helper()
		begun, err := r.one.Begin(t.Context(), connection.Request{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		return begun.State
	}
	finish := func(state string) error {
		_, err := r.one.Finish(t.Context(), connection.Answer{State: state, Error: "access_denied"})
		return err
	}
	bob, far := store.ConnectionKey{User: "bob", Provider: "demo"}, store.ConnectionKey{Org: "acme", User: "ada", Provider: "demo"}
	first, others := begin(ada), []string{begin(bob), begin(far)}
	last := ""
	for range 1_100 {
		r.pass(time.Millisecond)
		last = begin(ada)
	}

	others = append(others, begin(bob), begin(far), last)

	for i, state := range others {
		if err := finish(state); !errors.Is(err, perdure.Denied) { // it is known, and its user refused
			t.Errorf("authorization %d: %v", i, err)
		}
	}
	if err := finish(first); !errors.Is(err, perdure.NotFound) {
		t.Errorf("the oldest one of many: %v", err)
	}
}

// TestLogMask: the logs mask the tokens that connections have now, and those just before them. The
// mask does not keep older ones.
func TestLogMask(t *testing.T) {
	t.Parallel()
	r := newClockRig(t)
	r.connects()
	for range 3 {
		r.pass(2 * time.Hour)
		if _, err := r.token(r.other); err != nil {
			t.Fatal(err)
		}
	}
	masked := func() (all []string) {
		for _, token := range r.provider.Tokens() {
			if r.logs.Mask(token) != token {
				all = append(all, token)
			}
		}
		return all
	}
	all := r.provider.Tokens()
	if got, want := masked(), all[len(all)-4:]; !slices.Equal(got, want) {
		t.Errorf("masked are %q, want %q", got, want)
	}
	if err := r.other.Remove(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	if got := masked(); len(got) != 0 {
		t.Errorf("after the removal, masked are %q", got)
	}
}

// TestRepeatedFinish: a request that is repeated because its answer was lost finds the connection
// that it made, if it is that of its user. Any other use of the state finds nothing.
func TestRepeatedFinish(t *testing.T) {
	t.Parallel()
	r := newClockRig(t)
	begun, err := r.one.Begin(t.Context(), connection.Request{Key: ada})
	if err != nil {
		t.Fatal(err)
	}
	back, err := r.provider.Answer(begun.URL)
	if err != nil {
		t.Fatal(err)
	}
	of := func(user string) func(store.ConnectionKey, string) bool {
		return func(key store.ConnectionKey, _ string) bool { return key.User == user }
	}
	answer := connection.Answer{State: begun.State, Code: back.Get("code"), Mine: of("ada")}
	if _, err := r.one.Finish(t.Context(), answer); err != nil {
		t.Fatal(err)
	}
	if _, err := r.other.Finish(t.Context(), answer); !errors.Is(err, perdure.NotFound) {
		t.Errorf("a second request: %v", err)
	}
	answer.Repeated = true

	made, err := r.other.Finish(t.Context(), answer)

	if err != nil || made.Key != ada {
		t.Errorf("the same request: got %+v, %v", made, err)
	}
	answer.Mine = of("bob")
	if _, err := r.other.Finish(t.Context(), answer); !errors.Is(err, perdure.NotFound) {
		t.Errorf("the request of another user: %v", err)
	}
	answer.State, answer.Mine = "another", of("ada")
	if _, err := r.other.Finish(t.Context(), answer); !errors.Is(err, perdure.NotFound) {
		t.Errorf("another state: %v", err)
	}
}
