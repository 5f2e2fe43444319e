package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// deleter is a tool that names the path that a call is about, and remembers the calls that ran.
type deleter struct {
	tool.Tool
	ran *[]string
}

func newDeleter(policy tool.Policy) deleter {
	ran := &[]string{}
	spec := tool.Spec{Name: "delete", Description: "Deletes.", Class: perdure.Idempotent, Policy: policy}
	return deleter{ran: ran, Tool: tool.New(spec, func(_ context.Context, in pathIn, _ tool.Env) (string, error) {
		*ran = append(*ran, in.Path)
		return "deleted " + in.Path, nil
	})}
}

type pathIn struct {
	Path string `json:"path"`
}

// Permissions names the path.
func (deleter) Permissions(call tool.Call) []perdure.Permission {
	var in pathIn
	if err := perdure.DecodeJSON(call.Args, &in); err != nil {
		panic(err)
	}
	return []perdure.Permission{{Kind: "path", Target: in.Path}}
}

// permit denies /etc, asks about /home and says nothing of the rest.
func permit(_ context.Context, _ tool.Call, p perdure.Permission) (perdure.Decision, string, error) {
	switch {
	case p.Kind != "path":
		return perdure.Undecided, "", nil
	case strings.HasPrefix(p.Target, "/etc"):
		return perdure.Deny, "the system stays", nil
	case strings.HasPrefix(p.Target, "/home"):
		return perdure.Ask, "the directory is in use", nil
	case p.Target == "/panic":
		panic("ordered")
	case p.Target == "/error":
		return perdure.Allow, "", errors.New("no policy today")
	}
	return perdure.Undecided, "", nil
}

// hook rewrites one path to another, blocks another, and changes results.
type hook struct{ from, to string }

func (h hook) BeforeTool(_ context.Context, call tool.Call) (tool.Before, error) {
	var in pathIn
	if err := perdure.DecodeJSON(call.Args, &in); err != nil {
		return tool.Before{}, err
	}
	switch in.Path {
	case h.from:
		args, err := json.Marshal(pathIn{h.to})
		return tool.Before{Args: args}, err
	case "/blocked":
		return tool.Before{Block: "not this one"}, nil
	}
	return tool.Before{}, nil
}

func (hook) AfterTool(_ context.Context, _ tool.Call, r tool.Result) (tool.After, error) {
	seen := tool.Success(fmt.Sprint(r.Value, " seen"))
	return tool.After{Result: &seen}, nil
}

// inline runs one call of "delete" and returns its outcome.
func inline(t *testing.T, d *dispatch.Inline, path string, a *perdure.Approval) dispatch.Resolution {
	t.Helper()
	args, err := json.Marshal(pathIn{path})
	if err != nil {
		t.Fatal(err)
	}
	l := dispatch.Launch{Task: "task_1", Call: tool.Call{Session: "session-1", ID: "call-1", Tool: "delete", Args: args}, Approval: a}
	out, err := d.Start(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	return *out.Ready
}

// TestForRegistryAsksThePolicy lets a policy judge what a guarded tool says that a call is about
// (AP1).
func TestForRegistryAsksThePolicy(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/tmp":      "",
		"/etc/x":    "Permission denied: the system stays",
		"/panic":    "Permission denied: the call could not be checked",
		"/error":    "Permission denied: the call could not be checked",
		"/home/ada": "asks",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			target := newDeleter("")
			d, err := dispatch.NewInline(dispatch.Gate{Permit: permit}.ForRegistry(tool.NewRegistry(target), nil))
			if err != nil {
				t.Fatal(err)
			}

			r := inline(t, d, path, nil)

			switch {
			case want == "asks":
				if r.Approval == nil || len(r.Approval.Approval.Permissions) != 1 || r.Approval.Approval.Permissions[0].Target != path || r.Approval.Approval.Reason != "the directory is in use" {
					t.Errorf("got %+v, want a question about the path", r)
				}
			case r.Item == nil || r.Item.Result.Error != want || r.Item.Result.NeverStarted != (want != ""):
				t.Errorf("got %+v, want %q", r.Item, want)
			}
			if (len(*target.ran) == 1) != (want == "") {
				t.Errorf("ran %q", *target.ran)
			}
		})
	}
}

// TestForRegistryBindsPermissions approves one path and runs another: after a restart, and with new
// arguments (AP3, AP5).
func TestForRegistryBindsPermissions(t *testing.T) {
	t.Parallel()
	target := newDeleter("")
	cfg := dispatch.Gate{Permit: permit}.ForRegistry(tool.NewRegistry(target), nil)
	remembering(&cfg)
	open := func() *dispatch.Inline {
		d, err := dispatch.NewInline(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	approved := func(d *dispatch.Inline, patched string) *perdure.Approval {
		l := approve(*inline(t, d, "/home/ada", nil).Approval, patched)
		return l.Approval
	}

	d := open()
	less := approved(d, "")
	less.Permissions = nil // as somebody wrote it down who did not know better
	if r := inline(t, open(), "/home/ada", less); r.Item == nil || r.Item.Result.Error != perdure.TextNotMatching {
		t.Errorf("without the permission: got %+v", r)
	}
	again := inline(t, d, "/home/ada", approved(d, `{"path":"/home/bob"}`))
	if again.Approval == nil || again.Approval.Approval.Permissions[0].Target != "/home/bob" || string(again.Approval.Call.Args) != `{"path":"/home/bob"}` {
		t.Fatalf("got %+v, want a question about the new path", again)
	}
	if r := inline(t, d, "/home/ada", approved(d, `{"path":"/etc/x"}`)); r.Item == nil || r.Item.Result.ErrorKind != perdure.ErrorDenied {
		t.Errorf("got %+v, want the new path denied", r)
	}
	if len(*target.ran) != 0 {
		t.Errorf("ran %q, want nothing", *target.ran)
	}
	if r := inline(t, d, "/home/ada", approved(d, `{"path":"/tmp"}`)); r.Item == nil || r.Item.Result.IsError() || len(*target.ran) != 1 || (*target.ran)[0] != "/tmp" {
		t.Errorf("got %+v and ran %q, want the new path, about which nobody asks", r, *target.ran)
	}
}

// TestForRegistryRunsHooks lets hooks rewrite and block calls, and see results, as the engines do
// (TL35).
func TestForRegistryRunsHooks(t *testing.T) {
	t.Parallel()
	target := newDeleter(tool.PolicyRequiresApproval)
	gate := dispatch.Gate{Hooks: []tool.Hook{hook{"/prod", "/test"}}}
	d, err := dispatch.NewInline(gate.ForRegistry(tool.NewRegistry(target), nil))
	if err != nil {
		t.Fatal(err)
	}

	if r := inline(t, d, "/blocked", nil); r.Item == nil || r.Item.Result.Error != "The call was blocked: not this one" || !r.Item.Result.NeverStarted {
		t.Errorf("got %+v, want it blocked", r)
	}
	q := inline(t, d, "/prod", nil).Approval
	if q == nil || string(q.Approval.Args) != `{"path":"/test"}` || string(q.Call.Args) != `{"path":"/test"}` {
		t.Fatalf("asked %+v, want about the rewritten arguments", q)
	}
	out, err := d.Start(t.Context(), approve(*q, ""))
	if err != nil || out.Ready.Item == nil || string(out.Ready.Item.Result.Result) != `"deleted /test seen"` || len(*target.ran) != 1 {
		t.Errorf("got %+v, %v and ran %q", out.Ready, err, *target.ran)
	}
}

// TestForRegistryRefusesClientTools answers a call that only a client can answer.
func TestForRegistryRefusesClientTools(t *testing.T) {
	t.Parallel()
	target := newDeleter(tool.PolicyClientSide)
	d, err := dispatch.NewInline(dispatch.ForRegistry(tool.NewRegistry(target), nil))
	if err != nil {
		t.Fatal(err)
	}

	r := inline(t, d, "/tmp", nil)

	want := "delete must be executed by a client, and this loop has no client."
	if r.Item == nil || r.Item.Result.Error != want || r.Item.Result.ErrorKind != perdure.ErrorDenied || len(*target.ran) != 0 {
		t.Errorf("got %+v and ran %q, want %q", r.Item, *target.ran, want)
	}
}
