package api_test

import (
	"testing"

	"github.com/perdure/perdure"
)

// work is what GET /v1/work answers, and the list work contains.
type work struct {
	ID        string `json:"id"`
	Running   int    `json:"running"`
	NeedsYou  int    `json:"needs_you"`
	Approvals int    `json:"approvals"`
	Unknown   int    `json:"unknown"`
	Failed    int    `json:"failed"`
}

// TestWork: the counts follow what happens, in the answer and in the stream, and each org has its
// own.
func TestWork(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	stream := r.open("/v1/events?topics=work", nil)
	type list struct {
		Items []work   `json:"items"`
		Gone  []string `json:"gone"`
	}
	next := func() work {
		t.Helper()
		got := read[list](t, stream.topic().data)
		if len(got.Items) != 1 || got.Items[0].ID != "work" {
			t.Fatalf("got %+v", got)
		}
		return got.Items[0]
	}
	if got := next(); got != (work{ID: "work"}) {
		t.Errorf("got %+v", got)
	}

	path := r.session()
	r.say(path, "pay")
	for got := next(); got.NeedsYou != 1; {
		got = next()
	}
	if got := want[work](r, 200, get("/v1/work")); got.NeedsYou != 1 || got.Approvals != 1 || got.Running > 1 || got.Failed != 0 || got.Unknown != 0 {
		t.Errorf("got %+v", got)
	}
	other := r.let(`{"name":"Ada","org":"acme","scopes":["read"]}`)
	if got := want[work](r, 200, get("/v1/work").as(other.Secret)); got != (work{}) {
		t.Errorf("another org has %+v", got)
	}

	asked := want[struct {
		Items []perdure.Approval `json:"items"`
	}](r, 200, get("/v1/approvals"))
	want[perdure.Approval](r, 200, post("/v1/approvals/"+string(asked.Items[0].ID)+"/deny", ""))
	for got := next(); got != (work{ID: "work"}); {
		got = next()
	}
}
