package egress_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
)

// TestInsertedSecretObeysTheLists: the lists are about the URL that is sent. A value that leads to
// another path than the reference is refused before anything is sent, and no text shows it.
func TestInsertedSecretObeysTheLists(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent []string // guarded by mu
	at := serve(t, "a.test", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		sent = append(sent, r.RequestURI)
		mu.Unlock()
		if r.URL.Path == "/leave" {
			http.Redirect(w, r, "/secret:X", http.StatusFound)
		}
	})
	for name, c := range map[string]struct {
		operator, list perdure.NetworkList
		path, value    string
		sent, rule     string // rule: empty, it is allowed
	}{
		"a dot segment":            {list: allows(at + "/v1"), path: "/v1/secret:X/admin", value: "..", rule: perdure.RuleAllowed},
		"one dot":                  {path: "/v1/secret:X/admin", value: ".", rule: perdure.RuleSecret},
		"half of a dot segment":    {path: "/v1/secret:X./admin", value: ".", rule: perdure.RuleSecret},
		"a dot segment, escaped":   {path: "/v1/secret:X/admin", value: "%2e%2e", rule: perdure.RuleSecret},
		"dots and a slash":         {path: "/v1/secret:X", value: "../admin", rule: perdure.RuleSecret},
		"a backslash":              {path: "/v1/secret:X", value: `..\admin`, rule: perdure.RuleSecret},
		"blocked by the session":   {list: blocks(at + "/admin"), path: "/secret:X", value: "admin", rule: perdure.RuleBlocked},
		"blocked by the operator":  {operator: blocks(at + "/admin"), path: "/secret:X", value: "admin", rule: perdure.RuleBlocked},
		"not among the allowed":    {list: allows(at + "/secret:X"), path: "/secret:X", value: "elsewhere", rule: perdure.RuleAllowed},
		"through a redirect":       {list: blocks(at + "/admin"), path: "/leave", value: "admin", sent: "/leave", rule: perdure.RuleBlocked},
		"in an allowed path":       {list: allows(at + "/v1"), path: "/v1/secret:X/a", value: "k 1/2", sent: "/v1/k%201%2F2/a"},
		"dots in the query":        {list: blocks(at + "/admin"), path: "/v1?k=secret:X", value: "../admin", sent: "/v1?k=..%2Fadmin"},
		"a name that has a dot":    {path: "/v1/secret:X", value: "a..b", sent: "/v1/a..b"},
		"the value looks the same": {path: "/v1/secret:X", value: "secret:X", sent: "/v1/secret:X"},
	} {
		g := newGuard(t, egress.Config{List: c.operator})
		sent = nil
		_, err := g.Do(t.Context(), perdure.WebRequest{URL: at + c.path, List: c.list,
			Secrets: []perdure.WebSecret{{Ref: "secret:X", Value: c.value, Hosts: []string{"a.test"}}}})
		if got := strings.Join(sent, " "); got != c.sent {
			t.Errorf("%s: the server received %q, want %q", name, got, c.sent)
		}
		if c.rule == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		wants(t, err, perdure.EgressDenied, c.rule)
		if len(c.value) > 2 && strings.Contains(err.Error(), c.value) {
			t.Errorf("%s: the error shows the value: %v", name, err)
		}
	}
}

func allows(pattern string) perdure.NetworkList {
	return perdure.NetworkList{Allowed: []string{pattern}}
}
func blocks(pattern string) perdure.NetworkList {
	return perdure.NetworkList{Blocked: []string{pattern}}
}
