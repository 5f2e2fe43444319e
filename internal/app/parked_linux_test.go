package app

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// told runs the program to its end, and returns its exit code and both streams.
func (p place) told(args ...string) (code int, out, talk string) {
	p.t.Helper()
	cmd := p.command(args...)
	var said, heard bytes.Buffer
	cmd.Stdout, cmd.Stderr = &heard, &said
	err := cmd.Run()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		p.t.Fatalf("perdure %s: %v", strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), heard.String(), said.String()
}

// TestParkedCallOfDefaultSession: a call of an ordinary tool leaves its turn in a session with
// default tools, and the model finds the tools that its placeholder names.
func TestParkedCallOfDefaultSession(t *testing.T) {
	t.Parallel()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(slow.Close)
	p := newPlace(t, map[string]string{"s.yaml": `
rules:
  - when: {last_role: user}
    calls: [{name: get_weather, args: {location: Berlin}}]
  - when: {not_called: list_tasks}
    calls: [{name: list_tasks, args: {}}]
  - when: {not_called: check_background_tool}
    calls: [{name: check_background_tool, args: {background_id: '{{(result "get_weather").background_id}}', wait_seconds: 0}}]
  - when: {not_called: cancel_task}
    calls: [{name: cancel_task, args: {task_id: '{{(result "get_weather").background_id}}'}}]
steps: [{text: It is ended., repeat: true}]
`})
	p.env = []string{"PERDURE_WEATHER_URL=" + slow.URL, "PERDURE_GEOCODING_URL=" + slow.URL}

	_, _, talk := p.told("run", "--model", "scripted:"+filepath.Join(p.work, "s.yaml"), "--soft-budget", "300ms", "go")

	for _, words := range []string{"get_weather continues in the background", "▸ list_tasks", "▸ check_background_tool", "▸ cancel_task", "get_weather canceled"} {
		if !strings.Contains(talk, words) {
			t.Errorf("it does not say %q", words)
		}
	}
	if strings.Contains(talk, "Tool definition not found") {
		t.Error("a tool that the placeholder names is not there")
	}
	if t.Failed() {
		t.Log(talk)
	}
}
