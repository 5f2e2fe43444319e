package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/session"
)

// list calls list_resources.
func list(t *testing.T, ports tool.Ports, args string) perdure.ToolResult {
	t.Helper()
	return execute(t, []tool.Tool{session.ListResources()}, tool.Call{Tool: "list_resources", Args: []byte(args)}, tool.Env{Ports: ports})
}

func TestListResources(t *testing.T) {
	t.Parallel()
	ports := portsOf(t, false)(tool.Call{ID: "call_1"})
	for i, status := range []tool.ResourceStatus{"", "", tool.ResourceFailed, tool.ResourceReleased} {
		kind := []string{"sandbox", "browser"}[i%2]
		_, err := ports.Resources.Register(t.Context(), tool.Resource{ID: fmt.Sprint("r", i), Kind: kind, Status: status, Metadata: []byte(`{"region":"eu"}`)})
		if err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		`{}`:                                   "r0 r1",
		`{"status":"any"}`:                     "r0 r1 r2 r3",
		`{"status":"failed"}`:                  "r2",
		`{"kind":"browser","status":"any"}`:    "r1 r3",
		`{"kind":"connection","status":"any"}`: "",
	} {
		got := list(t, ports, args)

		var answer struct {
			Resources []tool.Resource `json:"resources"`
		}
		if err := perdure.DecodeJSON(got.Result, &answer); err != nil || answer.Resources == nil {
			t.Fatalf("%s: got %s, %v", args, got.Result, err)
		}
		var ids []string
		for _, r := range answer.Resources {
			ids = append(ids, r.ID)
			if string(r.Metadata) != `{"region":"eu"}` || r.CreatedAt.IsZero() {
				t.Errorf("got entry %+v", r)
			}
		}
		if strings.Join(ids, " ") != want {
			t.Errorf("%s: got %v, want %s", args, ids, want)
		}
	}
}

func TestListResourcesWithoutARegistry(t *testing.T) {
	t.Parallel()

	got := list(t, tool.Ports{}, `{}`)

	if !strings.HasPrefix(got.Error, "Session resource registry not available in this context. ") {
		t.Errorf("got %q", got.Error)
	}
}

// TestListResourcesIsNotCut fills the registry with more than an answer holds.
func TestListResourcesIsNotCut(t *testing.T) {
	t.Parallel()
	ports := portsOf(t, false)(tool.Call{ID: "call_1"})
	for i := range 12 {
		metadata, err := json.Marshal(map[string]string{"note": strings.Repeat("x", 8<<10)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ports.Resources.Register(t.Context(), tool.Resource{ID: fmt.Sprint("r", i), Kind: "sandbox", Metadata: metadata}); err != nil {
			t.Fatal(err)
		}
	}

	got := list(t, ports, `{}`)

	var answer struct {
		Resources []tool.Resource `json:"resources"`
		LeftOut   int             `json:"left_out"`
	}
	if err := perdure.DecodeJSON(got.Result, &answer); err != nil {
		t.Fatalf("got %v: %.200s", err, got.Result)
	}
	if len(answer.Resources) < 5 || answer.LeftOut != 12-len(answer.Resources) {
		t.Errorf("got %d entries, %d left out", len(answer.Resources), answer.LeftOut)
	}
}

// TestListResourcesTexts compares what a model reads of the tool with testdata.
func TestListResourcesTexts(t *testing.T) {
	t.Parallel()
	spec := session.ListResources().Spec()
	var schema bytes.Buffer
	if err := json.Indent(&schema, spec.Parameters, "", "  "); err != nil {
		t.Fatal(err)
	}
	got := txtar.Format(&txtar.Archive{Files: []txtar.File{
		{Name: spec.Name + ".txt", Data: []byte(spec.DisplayName + "\n\n" + spec.Description)},
		{Name: spec.Name + ".json", Data: schema.Bytes()},
	}})
	want, err := os.ReadFile(filepath.Join("testdata", "list_resources.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("testdata/list_resources.txtar: got\n%s\nwant\n%s", got, want)
	}
	if spec.Class != perdure.Pure || spec.Hints.CapabilityID != "session_resources" || !spec.NeedsEnv {
		t.Errorf("got %+v", spec)
	}
}
