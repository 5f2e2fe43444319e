package api_test

import (
	"slices"
	"testing"
)

// TestPrincipal: a caller learns who it is and what it may do.
func TestPrincipal(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	type principal struct {
		ID     string   `json:"id"`
		Name   string   `json:"name"`
		Org    string   `json:"org"`
		User   string   `json:"user"`
		Agent  bool     `json:"agent"`
		Scopes []string `json:"scopes"`
	}

	root := want[principal](r, 200, get("/v1/principal"))
	if root.ID != "api" || root.Org != "default" || !slices.Equal(root.Scopes, []string{"read", "write", "approve", "admin"}) {
		t.Errorf("got %+v", root)
	}

	let := r.let(`{"name":"Ada","org":"acme","user":"ada","scopes":["read","approve"]}`)
	got := want[principal](r, 200, get("/v1/principal").as(let.Secret))
	if got.ID != string(let.ID) || got.Name != "Ada" || got.Org != "acme" || got.User != "ada" || !slices.Equal(got.Scopes, []string{"read", "approve"}) {
		t.Errorf("got %+v", got)
	}
}
