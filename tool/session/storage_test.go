package session_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/session"
)

// use checks and runs a call of a tool of the set.
func use(t *testing.T, open func(tool.Call) tool.Ports, call tool.Call, dry bool) perdure.ToolResult {
	t.Helper()
	call.ID = cmp.Or(call.ID, "call_1")
	if refused := tool.NewRegistry(session.StorageTools()...).Validate(call.Tool, call.Args); refused != nil {
		record, _ := refused.Record(call.ID)
		return record
	}
	env := tool.Env{DryRun: dry}
	if open != nil {
		env.Ports = open(call)
	}
	return execute(t, session.StorageTools(), call, env)
}

func TestValueStore(t *testing.T) {
	t.Parallel()
	open := portsOf(t, false)
	for _, c := range []struct{ args, want string }{
		{`{"operation":"list"}`, `{"keys":[]}`},
		{`{"operation":"get","key":"k"}`, `{"key":"k","found":false}`},
		{`{"operation":"set","key":"k","value":""}`, `{"key":"k","set":true}`},
		{`{"operation":"get","key":"k"}`, `{"key":"k","found":true,"value":""}`},
		{`{"operation":"set","key":"k","value":"two"}`, `{"key":"k","set":true}`},
		{`{"operation":"get","key":"k"}`, `{"key":"k","found":true,"value":"two"}`},
		{`{"operation":"list"}`, `{"keys":[{"key":"k","version":2,`},
		{`{"operation":"delete","key":"k"}`, `{"key":"k","deleted":true}`},
		{`{"operation":"delete","key":"k"}`, `{"key":"k","deleted":false}`},
		{`{"operation":"set","value":"v"}`, `operation set requires key`},
		{`{"operation":"set","key":"k"}`, `operation set requires value`},
		{`{"operation":"set","key":"` + strings.Repeat("k", 257) + `","value":"v"}`, `key of 257 bytes`},
		{`{"operation":"set","key":"k","value":"` + strings.Repeat("v", 1<<20+1) + `"}`, `at most 1048576`},
		{`{"operation":"drop"}`, `/operation`},
	} {
		got := use(t, open, tool.Call{Tool: "kv_store", Args: []byte(c.args)}, false)
		if !strings.Contains(string(got.Result)+got.Error, c.want) || got.IsError() == strings.HasPrefix(c.want, "{") {
			t.Errorf("%.60s: got %s %s, want %s", c.args, got.Result, got.Error, c.want)
		}
	}
}

// TestSecretStore wants no answer to have a value, unless reading it was granted.
func TestSecretStore(t *testing.T) {
	t.Parallel()
	open := portsOf(t, true)
	for _, c := range []struct{ args, want string }{
		{`{"operation":"list"}`, `{"secrets":[]}`},
		{`{"operation":"get","name":"n"}`, `Secret not found: n`},
		{`{"operation":"set","name":"n","value":"correct horse","hosts":["api.example.com"]}`, `{"name":"n","set":true}`},
		{`{"operation":"get","name":"n"}`, `"handle":"secret:n"`},
		{`{"operation":"get","name":"n"}`, `"version":1,"hosts":["api.example.com"]`},
		{`{"operation":"list"}`, `"name":"n","version":1,`},
		{`{"operation":"set","name":"n","value":"battery staple"}`, `{"name":"n","set":true}`},
		{`{"operation":"get","name":"n"}`, `"version":2,`},
		{`{"operation":"set","name":"n"}`, `operation set requires value`},
		{`{"operation":"set","name":"perdure:n","value":"v"}`, `the runtime's own`},
		{`{"operation":"get","name":"perdure:n"}`, `Secret not found`},
		{`{"operation":"set","name":"n","value":"v","hosts":["https://a"]}`, `without scheme`},
		{`{"operation":"delete","name":"n"}`, `{"name":"n","deleted":true}`},
		{`{"operation":"delete","name":"n"}`, `{"name":"n","deleted":false}`},
	} {
		got := use(t, open, tool.Call{Tool: "secret_store", Args: []byte(c.args)}, false)
		text := string(got.Result) + got.Error
		if !strings.Contains(text, c.want) || strings.Contains(text, "horse") || strings.Contains(text, "staple") {
			t.Errorf("%s: got %s, want %s", c.args, text, c.want)
		}
	}
}

func TestSecretIsShownWhereItWasGranted(t *testing.T) {
	t.Parallel()
	open := portsOf(t, true)
	use(t, open, tool.Call{Tool: "secret_store", Args: []byte(`{"operation":"set","name":"n","value":"correct horse"}`)}, false)
	get := tool.Call{Tool: "secret_store", Args: []byte(`{"operation":"get","name":"n"}`)}

	guarded := session.SecretStore().(tool.Guarded)
	wanted := guarded.Permissions(get)
	if len(wanted) != 1 || wanted[0].Kind != tool.ReadSecret || wanted[0].Target != "n" {
		t.Fatalf("it asks for %+v", wanted)
	}
	if other := guarded.Permissions(tool.Call{Tool: "secret_store", Args: []byte(`{"operation":"list"}`)}); other != nil {
		t.Errorf("list asks for %+v", other)
	}
	get.Granted = []perdure.Permission{{Kind: tool.ReadSecret, Target: "other"}}
	if got := use(t, open, get, false); strings.Contains(string(got.Result), "horse") {
		t.Errorf("granted for another: got %s", got.Result)
	}
	get.Granted = wanted
	if got := use(t, open, get, true); strings.Contains(string(got.Result), "horse") {
		t.Errorf("in a dry run: got %s", got.Result)
	}

	got := use(t, open, get, false)

	if string(got.Result) != `{"name":"n","value":"correct horse"}` {
		t.Errorf("got %s", got.Result)
	}
}

// TestSecretReconciles wants a call to be known by what it wrote, and no other.
func TestSecretReconciles(t *testing.T) {
	t.Parallel()
	open := portsOf(t, true)
	asked := session.SecretStore().(tool.Reconciler)
	ask := func(call tool.Call) tool.Reconciled {
		said, err := asked.Reconcile(t.Context(), call, tool.Env{Call: call, Ports: open(call)})
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	set := tool.Call{ID: "call_set", Tool: "secret_store", Args: []byte(`{"operation":"set","name":"n","value":"<redacted>"}`)}
	if said := ask(set); said.Happened || !said.DidNotHappen {
		t.Errorf("before: %+v", said)
	}
	stored := set
	stored.Args = []byte(`{"operation":"set","name":"n","value":"correct horse"}`)
	use(t, open, stored, false)

	if said := ask(set); !said.Happened || !said.Result.IsSuccess() {
		t.Errorf("after: %+v", said)
	}
	other := set
	other.ID = "call_other"
	if said := ask(other); said.Happened || !said.DidNotHappen {
		t.Errorf("of another call: %+v", said)
	}
}

func TestStorageThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, args, want string
		open             func(tool.Call) tool.Ports
		dry              bool
	}{
		{"kv_store", `{"operation":"list"}`, "Session storage store not available in this context.", nil, false},
		{"secret_store", `{"operation":"list"}`, "Session storage store not available in this context.", nil, false},
		{"secret_store", `{"operation":"set","name":"n","value":"v"}`, "this runtime has no keyring", portsOf(t, false), false},
		{"kv_store", `{"operation":"set","key":"k","value":"v"}`, "[dry-run] Would set", portsOf(t, false), true},
		{"kv_store", `{"operation":"delete","key":"k"}`, "[dry-run] Would delete", portsOf(t, false), true},
		{"secret_store", `{"operation":"set","name":"n","value":"v"}`, "[dry-run] Would set", portsOf(t, true), true},
	} {
		got := use(t, c.open, tool.Call{Tool: c.name, Args: []byte(c.args)}, c.dry)
		if !strings.Contains(string(got.Result)+got.Error, c.want) {
			t.Errorf("%s %s: got %s %s, want %s", c.name, c.args, got.Result, got.Error, c.want)
		}
	}
}

// TestStorageTexts compares what a model reads of these tools with testdata.
func TestStorageTexts(t *testing.T) {
	t.Parallel()
	var got txtar.Archive
	for _, one := range session.StorageTools() {
		spec := one.Spec()
		var schema bytes.Buffer
		if err := json.Indent(&schema, spec.Parameters, "", "  "); err != nil {
			t.Fatal(err)
		}
		got.Files = append(got.Files, txtar.File{Name: spec.Name + ".txt", Data: []byte(spec.Description)}, txtar.File{Name: spec.Name + ".json", Data: schema.Bytes()})
		if spec.Hints.CapabilityID != session.StorageCapability {
			t.Errorf("%s comes with %q", spec.Name, spec.Hints.CapabilityID)
		}
	}
	path := filepath.Join("testdata", "storage.txtar")
	if os.Getenv("PERDURE_UPDATE") != "" {
		if err := os.WriteFile(path, txtar.Format(&got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(txtar.Format(&got), want) {
		t.Errorf("the texts are not those of %s, %v: rewrite it with PERDURE_UPDATE=1 go test ./tool/session", path, err)
	}
	if !strings.Contains(string(want), `"writeOnly": true`) {
		t.Error("no argument is secret")
	}
}
