package api_test

import (
	"context"
	"testing"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
)

// machineOfTest is a machine with something to say.
func machineOfTest() api.Machine {
	return api.Machine{
		Build: api.Build{Version: "v1.2.3", SQLite: "3.53.0"},
		Storage: func(context.Context) (api.Storage, error) {
			return api.Storage{Store: "sqlite", Path: "/srv/perdure", DatabaseBytes: 4096}, nil
		},
		Diagnose: func(context.Context) ([]api.Finding, error) {
			return []api.Finding{{Name: "disk", Health: "warn", Detail: "0.9 GB free", Fix: "free some space"}}, nil
		},
		Egress: func() api.EgressRules {
			return api.EgressRules{Allowed: []string{}, Blocked: []string{"*"}, Private: []string{}, Webhooks: []string{}}
		},
		Verify:       func() (api.Verification, error) { return api.Verification{State: "running", Problems: []string{}}, nil },
		Verification: func() api.Verification { return api.Verification{State: "none", Problems: []string{}} },
	}
}

// TestMachine: a server says what it is, and to its administrators how its machine is.
func TestMachine(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if v := want[api.Build](r, 200, get("/v1/version")); v.Version != "v1.2.3" || v.SQLite != "3.53.0" {
		t.Errorf("got %+v", v)
	}
	if s := want[api.Storage](r, 200, get("/v1/storage")); s.Path != "/srv/perdure" || s.DatabaseBytes != 4096 || s.LastBackup != nil {
		t.Errorf("got %+v", s)
	}
	if all := want[taskInList[api.Finding]](r, 200, get("/v1/doctor")).Items; len(all) != 1 || all[0].Health != "warn" {
		t.Errorf("got %+v", all)
	}
	if e := want[api.EgressRules](r, 200, get("/v1/egress")); len(e.Blocked) != 1 || e.Broken != "" {
		t.Errorf("got %+v", e)
	}
	if v := want[api.Verification](r, 200, get("/v1/storage/verification")); v.State != "none" {
		t.Errorf("got %+v", v)
	}
	if v := want[api.Verification](r, 202, post("/v1/storage/verify", "")); v.State != "running" {
		t.Errorf("got %+v", v)
	}

	let := r.let(`{"name":"Ada","org":"acme","scopes":["read","admin"]}`).Secret
	for _, path := range []string{"/v1/storage", "/v1/storage/verification", "/v1/doctor", "/v1/egress"} {
		r.refusal(r.do(get(path).as(let)), 403, "forbidden")
	}
	want[api.Build](r, 200, get("/v1/version").as(let))
}

// TestNoMachine: a server that does not know its machine says so.
func TestNoMachine(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *api.Config) { c.Machine = api.Machine{} })
	for _, q := range []ask{get("/v1/storage"), get("/v1/storage/verification"), get("/v1/doctor"), get("/v1/egress"), post("/v1/storage/verify", "")} {
		r.refusal(r.do(q), 503, "unavailable")
	}
}

// TestAuditOrder: the audit log is read from its end, page by page.
func TestAuditOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for range 5 {
		r.let(`{"name":"one"}`)
	}
	var got []int64
	for path := "/v1/audit?order=newest&limit=2"; ; {
		page := want[struct {
			Items []engine.AuditEntry `json:"items"`
			Next  string              `json:"next"`
		}](r, 200, get(path))
		for _, e := range page.Items {
			got = append(got, e.Seq)
		}
		if page.Next == "" {
			break
		}
		path = "/v1/audit?order=newest&limit=2&cursor=" + page.Next
	}
	for i, seq := range got {
		if seq != int64(len(got)-i) {
			t.Fatalf("got %v", got)
		}
	}
	if len(got) < 5 {
		t.Errorf("got %v", got)
	}
	if before := want[taskInList[engine.AuditEntry]](r, 200, get("/v1/audit?order=newest&before=3")).Items; len(before) != 2 || before[0].Seq != 2 {
		t.Errorf("got %v", before)
	}
	r.refusal(r.do(get("/v1/audit?order=sideways")), 400, "invalid")
}
