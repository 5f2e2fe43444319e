package mcpserver_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/tool"
)

// TestTaskToolNames: an exposed tool with the name of a task tool is listed and called like any
// other, by every client; our tool of that name is not offered or recommended.
func TestTaskToolNames(t *testing.T) {
	t.Parallel()
	names := []string{"task_status", "task_result", "task_cancel", "task_list"}
	for i, taken := range names {
		t.Run(taken, func(t *testing.T) {
			t.Parallel()
			spec := enginerig.Spec(taken, perdure.Pure)
			spec.Description = "Their own list."
			theirs := tool.New(spec, func(context.Context, struct {
				Project string `json:"project"`
			}, tool.Env) (string, error) {
				return "theirs", nil
			})
			r := newRig(t, mcpserver.Config{SoftBudget: time.Minute}, theirs)
			for _, a := range []questionPart{{}, withTasks} {
				shown := map[string]object{}
				for _, entry := range r.want(a, "tools/list", object{})["tools"].([]any) {
					shown[entry.(object)["name"].(string)] = entry.(object)
				}

				if got := shown[taken]; got["description"] != "Their own list." || !strings.Contains(jsonOf(t, got["inputSchema"]), "project") {
					t.Errorf("with Tasks %t: it is shown as %v", a.tasks, got)
				}
				if other := names[(i+1)%len(names)]; (shown[other] == nil) != a.tasks {
					t.Errorf("with Tasks %t: %s is %v", a.tasks, other, shown[other])
				}
				if got := r.call(a, taken, object{"project": "p"}, nil); textOf(got) != "theirs" {
					t.Errorf("with Tasks %t: got %v", a.tasks, got)
				}
			}

			slow := newRig(t, mcpserver.Config{SoftBudget: 20 * time.Millisecond}, theirs)
			running := textOf(slow.call(questionPart{}, "hold_note", text, nil))
			for _, name := range names[:3] {
				if strings.Contains(running, name) == (name == taken) {
					t.Errorf("%s: it says %s", name, running)
				}
			}
			if !slices.Contains(names[:3], taken) && !strings.Contains(running, "task_result") {
				t.Errorf("it says %s", running)
			}
		})
	}
}
