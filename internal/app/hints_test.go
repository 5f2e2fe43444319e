package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCPAnnotations: the official client reads from the program what calls of its tools do.
func TestMCPAnnotations(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	program := exec.Command("perdure", "mcp", "serve", "--data", shortDir(t), "--tool", "*", "--tool", "write_todos", "--tool", "report_progress")
	program.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: program}, nil)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"write_todos": "Write Todos: false false true false", "report_progress": "Report Progress: false false true false",
		"get_current_time": "Get Current Time: true false true false", "read_file": "Read File: true false true false",
		"write_file": "Write File: false true true false", "edit_file": "Edit File: false true false false",
		"web_fetch": "Web Fetch: true false true true",
	}
	got := map[string]string{}
	for _, shown := range listed.Tools {
		a := shown.Annotations
		if a == nil || a.OpenWorldHint == nil || a.DestructiveHint == nil && !a.ReadOnlyHint {
			if !strings.HasPrefix(shown.Name, "task_") {
				t.Errorf("%s: %+v", shown.Name, a)
			}
			continue
		}
		if _, ok := want[shown.Name]; ok {
			got[shown.Name] = fmt.Sprintf("%s: %t %t %t %t", a.Title, a.ReadOnlyHint, *a.DestructiveHint, a.IdempotentHint, *a.OpenWorldHint)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// TestModelReadsTheAgents: the program tells a model which agents it can start.
func TestModelReadsTheAgents(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 10) // one for each request to the model
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies <- string(body)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(server.Close)
	dir := shortDir(t)
	file := filepath.Join(t.TempDir(), "reader.yaml")
	if err := os.WriteFile(file, []byte("name: reader\ndescription: Reads the brief.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"agent", "apply", "--data", dir, file},
		{"run", "--data", dir, "--capability", "subagents", "--model", "openai:any@" + server.URL + "/v1", "hello"},
	} {
		if out, err := exec.Command("perdure", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	if body := <-bodies; !strings.Contains(body, `Agents that you can name:\n- reader: Reads the brief.`) {
		t.Errorf("the model reads %s", body)
	}
}
