package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/perdure/perdure/tool"
)

// TestColleagueAnswers runs the program twice over the same data.
func TestColleagueAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, want := range []string{
		"The librarian says: There are two notes. There are 2 sessions.\n",
		"The librarian says: There are two notes. There are 4 sessions.\n",
	} {
		var out bytes.Buffer
		if err := run(t.Context(), dir, &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
}

// TestWithoutThePort: a host that does not open the port gets a tool error.
func TestWithoutThePort(t *testing.T) {
	t.Parallel()
	tools := tool.NewRegistry(askColleague(), listSessions())
	if err := tools.Err(); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string]string{"ask_colleague": `{"agent":"a","question":"b"}`, "list_sessions": `{}`} {
		call := tool.Call{Tool: name, Session: "session_1", Args: []byte(args)}
		results, err := tools.ExecuteAll(t.Context(), []tool.Call{call}, tool.Env{})
		if err != nil || !strings.Contains(results[0].Text, "Platform store not available in this context.") {
			t.Errorf("%s: got %+v, %v", name, results, err)
		}
	}
}
