package api_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// TestConnectionsOfUsers: a tool has the connection of the user whose token started its session
// over HTTP, in the foreground and in the background, and never that of another user or org. A
// token without a user acts for the user named user in its org; so does the token of the data
// directory, whose org is default.
func TestConnectionsOfUsers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, of := range []store.ConnectionKey{{User: "ada"}, {User: "bob"}, {User: sessionport.LocalUser}, {Org: "acme", User: "ada"}} {
		r.connect(of)
	}
	callers := []struct{ org, user string }{{"default", "ada"}, {"default", "bob"}, {"default", ""}, {"acme", "ada"}, {"acme", "bob"}, {"acme", ""}}

	got := map[string][]string{"root": r.whose(token)}
	for _, c := range callers {
		made := r.let(fmt.Sprintf(`{"name":"a token","org":%q,"user":%q,"scopes":["read","write"]}`, c.org, c.user))
		got[c.org+" "+c.user] = r.whose(made.Secret)
	}

	both := func(token, user, org string) []string {
		return slices.Repeat([]string{fmt.Sprintf("%q for %q of %q", token, user, org)}, 2)
	}
	const notConnected = ""
	local := both(tokenOf("", sessionport.LocalUser), "", "")
	want := map[string][]string{
		"root": local, "default ": local, "default ada": both(tokenOf("", "ada"), "ada", ""), "default bob": both(tokenOf("", "bob"), "bob", ""),
		"acme ada": both(tokenOf("acme", "ada"), "ada", "acme"), "acme bob": both(notConnected, "bob", "acme"), "acme ": both(notConnected, "", "acme"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tokens that the tool was given (-want +got):\n%s", diff)
	}
}

// connect stores a connection to github, whose token names its user.
func (r *rig) connect(of store.ConnectionKey) {
	r.t.Helper()
	if of.Provider == "" {
		of.Provider = "github"
	}
	cfg := sessionport.Config{Store: r.store, Keys: r.vault}
	sealed, err := cfg.SealToken(of, tokenOf(of.Org, of.User))
	if err == nil {
		err = r.store.InTx(r.t.Context(), func(tx store.Tx) error {
			_, err := tx.Directory().Connections().Put(store.Connection{Org: of.Org, User: of.User, Provider: of.Provider, Sealed: sealed})
			return err
		})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// connectTo stores a connection of the user without a name.
func (r *rig) connectTo(provider string) {
	r.t.Helper()
	r.connect(store.ConnectionKey{User: sessionport.LocalUser, Provider: provider})
}

func tokenOf(org, user string) string { return "token of " + user + " of " + org }

// tokens are the tokens that the tool whose was given, by session.
type tokens struct {
	mu  sync.Mutex
	all map[perdure.SessionID][]string // guarded by mu
}

func (k *tokens) add(of tool.Call, token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[perdure.SessionID][]string{}
	}
	k.all[of.Session] = append(k.all[of.Session], fmt.Sprintf("%q for %q of %q", token, of.User, of.Org))
}

// whose starts a session with a secret and returns the tokens that the tool whose got in it: in the
// foreground, then in the background.
func (r *rig) whose(secret string) []string {
	r.t.Helper()
	s := want[engine.Session](r, 201, post("/v1/sessions", `{"agent":{}}`).as(secret))
	path := "/v1/sessions/" + string(s.ID)
	for _, text := range []string{"whose", "spawn later"} {
		want[map[string]any](r, 202, post(path+"/messages", fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text)).as(secret))
		r.rested(path, secret)
	}
	r.tokens.mu.Lock()
	defer r.tokens.mu.Unlock()
	return r.tokens.all[s.ID]
}
