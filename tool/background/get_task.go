package background

import (
	"context"
	_ "embed" // the text that the model reads
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

const getName = "get_task"

//go:embed get_task.md
var getText string

// minPage is the minimum size of a page: one whole character, so that reading always makes
// progress.
const minPage = utf8.UTFMax

// getArgs are the arguments of get_task (8.5).
type getArgs struct {
	ID       string `json:"task_id" minLength:"1" jsonschema:"The task_id or run_id"`
	Offset   int64  `json:"offset" default:"0" jsonschema:"Byte offset in the output to read from. Negative: counted from the end. To continue, use next_offset of the previous answer"`
	MaxBytes int    `json:"max_bytes" default:"16384" min:"4" max:"65536" jsonschema:"Maximum number of bytes of output. Fewer are returned if the answer would be too long: continue with next_offset"`
}

// taskPage is a task with a part of its output.
type taskPage struct {
	perdure.Task
	Output string `json:"output"`
	Offset int64  `json:"offset"` // start of the part
	Next   int64  `json:"next_offset"`
	EOF    bool   `json:"eof"` // the output is complete and ends here
}

func newGet() tool.Tool {
	yes := true
	return tool.New(tool.Spec{
		Name:        getName,
		DisplayName: "Get Task",
		Narration:   tool.Narration{Started: "Reading the task {task_id}", Completed: "Read the task {task_id}", Failed: "Could not read the task {task_id}"},
		Description: strings.TrimSpace(getText),
		Class:       perdure.Pure,
		SessionOnly: true,
		NeedsEnv:    true,
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes, CapabilityID: capability},
	}, getTask)
}

func getTask(ctx context.Context, in getArgs, env tool.Env) (tool.Result, error) {
	if env.Tasks == nil {
		return noTasks(getName), nil
	}
	// The task is read before its output: if it has ended, the output read afterwards is complete.
	t, err := env.Tasks.Task(ctx, in.ID)
	if err != nil {
		return noTask(ctx, in.ID, err), nil
	}
	log, err := env.Tasks.Log(ctx, in.ID, in.Offset, in.MaxBytes)
	if err != nil {
		return noTask(ctx, in.ID, err), nil
	}
	return read(tool.Success(fitPage(shown(t), log)), t), nil
}

// fitPage returns a page small enough not to be cut as a result; the rest is left to the next page.
func fitPage(t perdure.Task, log tool.LogPage) taskPage {
	p := pageOf(t, log)
	if sizeOf(p) <= tool.ResultLimit || len(log.Bytes) <= minPage {
		return p
	}
	output := log.Bytes
	tooLong := sort.Search(len(output)-minPage, func(n int) bool {
		log.Bytes = output[:minPage+n]
		return sizeOf(pageOf(t, log)) > tool.ResultLimit
	})
	log.Bytes = output[:minPage+max(tooLong-1, 0)]
	return pageOf(t, log)
}

// pageOf cuts a part of the output at character boundaries, and computes the start of the next one.
func pageOf(t perdure.Task, log tool.LogPage) taskPage {
	p := taskPage{Task: t, Offset: log.Offset}
	piece := log.Bytes
	if p.Offset > 0 {
		piece = piece[split(piece):]
		p.Offset += int64(len(log.Bytes) - len(piece))
	}
	last := t.State.Terminal() && log.Offset+int64(len(log.Bytes)) >= log.LogLen
	if !last {
		piece = piece[:wholeRunesLen(piece)]
	}
	p.Output = strings.ToValidUTF8(string(piece), "\uFFFD")
	p.Next = p.Offset + int64(len(piece))
	p.EOF = last
	return p
}

// split returns the number of bytes at the start that belong to a character that began before.
func split(b []byte) int {
	for i := 0; i < len(b) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(b[i]) {
			return i
		}
	}
	return 0 // binary data
}

// wholeRunesLen returns the length without an incomplete character at the end.
func wholeRunesLen(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}
