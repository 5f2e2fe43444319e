package mcpserver_test

import (
	"context"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/tool"
)

// TestTooLongResult: an MCP result that is handed on and is longer than is kept is still one, which
// says where the whole is, and that the call was made.
func TestTooLongResult(t *testing.T) {
	t.Parallel()
	// Bytes: the size that is stored completely, and that models receive only in part.
	const most, plenty = 8 << 20, 100 << 10
	whole := func(_ context.Context, in struct {
		Bytes int `json:"bytes"`
	}, _ tool.Env) (object, error) {
		return object{"content": []object{{"type": "text", "text": strings.Repeat("A", in.Bytes)}}}, nil
	}
	big := tool.New(enginerig.Spec("big", perdure.AtMostOnce), whole)
	r := newRig(t, mcpserver.Config{Tools: []mcpserver.Exposed{{Name: "big", Verbatim: true}}}, big)

	kept := r.call(questionPart{}, "big", object{"bytes": plenty}, nil)
	if got := len(textOf(kept)); got != plenty || kept["isError"] == true {
		t.Errorf("got %d bytes, want all", got)
	}
	made := r.call(withTasks, "big", object{"bytes": most}, nil)["taskId"].(string)
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience) // so much takes its time where races are looked for
	defer cancel()
	for _, task := range r.all() {
		if _, err := r.eng.Tasks().Wait(ctx, task.ID); err != nil {
			t.Fatal(err)
		}
	}
	done := r.until(withTasks, made, "completed")["result"].(object)
	for way, got := range map[string]object{"tasks/get": done, "task_result": r.call(questionPart{}, "task_result", object{"task_id": made}, nil)} {
		said := textOf(got)
		if got["isError"] != true || !strings.Contains(said, "The call succeeded") || !strings.Contains(said, "perdure file cat session_") || !strings.Contains(said, "/result.json") {
			t.Errorf("%s: got %.300v", way, got)
		}
		if blocks, _ := got["content"].([]any); len(blocks) != 2 || got["truncated"] != nil || got["structuredContent"] != nil {
			t.Errorf("%s: %d blocks of %.300v", way, len(blocks), got)
		}
	}
}
