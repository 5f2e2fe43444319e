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

// minPage is the least that a page may hold: a whole character, so that reading gets on.
const minPage = utf8.UTFMax

// getArgs are the arguments of get_task (8.5).
type getArgs struct {
	ID       string `json:"task_id" minLength:"1" jsonschema:"The task_id or run_id"`
	Offset   int64  `json:"offset" default:"0" jsonschema:"Byte offset in the output to read from. Negative: counted from the end. Use next_offset of the answer before to go on"`
	MaxBytes int    `json:"max_bytes" default:"16384" min:"4" max:"65536" jsonschema:"How many bytes of output to return at most. Fewer come when the answer would be too long: go on with next_offset"`
}

// taskPage is a task with a piece of its output.
type taskPage struct {
	perdure.Task
	Output string `json:"output"`
	Offset int64  `json:"offset"` // where the piece begins
	Next   int64  `json:"next_offset"`
	EOF    bool   `json:"eof"` // there is no more and there never will be
}

func newGet() tool.Tool {
	yes := true
	return tool.New(tool.Spec{
		Name:        getName,
		DisplayName: "Get Task",
		Description: strings.TrimSpace(getText),
		Class:       perdure.Pure,
		Inside:      true,
		NeedsEnv:    true,
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes, CapabilityID: capability},
	}, getTask)
}

func getTask(ctx context.Context, in getArgs, env tool.Env) (tool.Result, error) {
	if env.Tasks == nil {
		return noTasks(getName), nil
	}
	// The task before its output: when it has ended, the output that is read then is all there is.
	t, err := env.Tasks.Task(ctx, in.ID)
	if err != nil {
		return noTask(ctx, in.ID, err), nil
	}
	log, err := env.Tasks.Log(ctx, in.ID, in.Offset, in.MaxBytes)
	if err != nil {
		return noTask(ctx, in.ID, err), nil
	}
	return read(tool.Success(fitting(shown(t), log)), t), nil
}

// fitting makes a page that is not cut as a result: what does not fit is left to the next one.
func fitting(t perdure.Task, log tool.LogPage) taskPage {
	p := pageOf(t, log)
	if sizeOf(p) <= tool.ResultLimit || len(log.Bytes) <= minPage {
		return p
	}
	whole := log.Bytes
	tooLong := sort.Search(len(whole)-minPage, func(n int) bool {
		log.Bytes = whole[:minPage+n]
		return sizeOf(pageOf(t, log)) > tool.ResultLimit
	})
	log.Bytes = whole[:minPage+max(tooLong-1, 0)]
	return pageOf(t, log)
}

// pageOf cuts a piece of output between two characters, and says where the next one begins.
func pageOf(t perdure.Task, log tool.LogPage) taskPage {
	p := taskPage{Task: t, Offset: log.Offset}
	piece := log.Bytes
	if p.Offset > 0 {
		piece = piece[split(piece):]
		p.Offset += int64(len(log.Bytes) - len(piece))
	}
	last := t.State.Terminal() && log.Offset+int64(len(log.Bytes)) >= log.End
	if !last {
		piece = piece[:whole(piece)]
	}
	p.Output = strings.ToValidUTF8(string(piece), "\uFFFD")
	p.Next = p.Offset + int64(len(piece))
	p.EOF = last
	return p
}

// split returns how many bytes at the beginning belong to a character that began before.
func split(b []byte) int {
	for i := 0; i < len(b) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(b[i]) {
			return i
		}
	}
	return 0 // no text
}

// whole returns the length without a character that is cut off at the end.
func whole(b []byte) int {
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
