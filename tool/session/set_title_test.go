package session_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/session"
)

// TestSetTitle pins that the model sets the title on one line, and reads why a title is refused.
func TestSetTitle(t *testing.T) {
	t.Parallel()
	ports := portsOf(t, false)
	set := func(args string, with bool) string {
		call := tool.Call{Tool: "set_title", Args: []byte(args), ID: "call_1", Session: sessionID}
		env := tool.Env{}
		if with {
			env.Ports = ports(call)
		}
		result := execute(t, []tool.Tool{session.SetTitle()}, call, env)
		return string(result.Result) + result.Error
	}
	if got := set(`{"title":"Tides\n of  Lisbon"}`, true); got != `{"title":"Tides of Lisbon"}` {
		t.Errorf("got %s", got)
	}
	if title, err := ports(tool.Call{Session: sessionID}).Session.Title(t.Context()); err != nil || title != "Tides of Lisbon" {
		t.Errorf("the title is %q, %v", title, err)
	}
	if got := set(`{"title":"`+strings.Repeat("é", 400)+`"}`, true); !strings.Contains(got, "give 1 to 512 bytes") {
		t.Errorf("too long: got %s", got)
	}
	if got := set(`{"title":" "}`, true); !strings.Contains(got, "title: it has 0 bytes") {
		t.Errorf("blank: got %s", got)
	}
	if got := set(`{"title":"x"}`, false); !strings.Contains(got, "Session mutator not available in this context.") {
		t.Errorf("without the port: got %s", got)
	}
}
