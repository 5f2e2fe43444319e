package cli

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// asker is an open question on a terminal, and the keys that answer it.
type asker struct {
	c     *conversation
	scene *scene
	said  *talkHeard
	words chan string // output in the order of printing
	keys  *io.PipeWriter
	ended chan error
}

// newAsker asks about one call, and returns when the terminal shows the question.
func newAsker(t *testing.T, sc *scene, env map[string]string) *asker {
	t.Helper()
	in, keys := io.Pipe()
	k := &asker{scene: sc, words: make(chan string, 1000), keys: keys, ended: make(chan error, 1)}
	k.said = &talkHeard{hear: func(said string) { k.words <- said }}
	a := &app{Dependencies: Dependencies{Stderr: k.said, Env: func(name string) string { return env[name] }}, stdin: in}
	fold := perdure.NewSession("session_1")
	for _, p := range sc.approvals {
		fold.Approvals[p.ID] = p
	}
	k.c = &conversation{a: a, eng: sc, stream: &stream{id: "session_1", fold: fold}}
	ctx, stop := context.WithCancel(t.Context())
	q := k.c.startQuestions(ctx)
	go func() { k.ended <- q.run(ctx) }()
	t.Cleanup(func() {
		stop()
		_ = keys.Close()
		<-k.ended
	})
	k.until(t, approvalPromptText)
	return k
}

// until waits for a text in the output.
func (k *asker) until(t *testing.T, words string) {
	t.Helper()
	heard := ""
	for !strings.Contains(heard, words) {
		select {
		case piece := <-k.words:
			heard += piece
		case <-t.Context().Done():
			t.Fatalf("no %q: %q", words, heard)
		}
	}
}

// settles waits until no question is open.
func (k *asker) settles(t *testing.T) {
	t.Helper()
	for k.c.questions.state.Load() != noPrompt {
		select {
		case <-k.words:
		case <-t.Context().Done():
			t.Fatal("the question stays open")
		default:
			runtime.Gosched()
		}
	}
}

func (k *asker) press(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(k.keys, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// TestQuestionClosesMeanwhile: a question that expired, or was answered elsewhere, accepts no
// answer, whether the journal reported that before the user typed or not.
func TestQuestionClosesMeanwhile(t *testing.T) {
	t.Parallel()
	for _, state := range []perdure.ApprovalState{perdure.ApprovalExpired, perdure.ApprovalDenied, perdure.ApprovalVoid} {
		t.Run("the journal says "+string(state), func(t *testing.T) {
			t.Parallel()
			k := newAsker(t, &scene{approvals: []perdure.Approval{charge()}}, nil)
			k.c.stream.mu.Lock()
			clear(k.c.stream.fold.Approvals)
			k.c.stream.mu.Unlock()

			signal(k.c.stream.askedCh)

			k.until(t, "needs no answer any more")
			if len(k.scene.verdicts) > 0 {
				t.Errorf("verdicts %+v, want none", k.scene.verdicts)
			}
		})
		t.Run("the answer finds it "+string(state), func(t *testing.T) {
			t.Parallel()
			k := newAsker(t, &scene{approvals: []perdure.Approval{charge()}, faster: state}, nil)

			k.press(t, "y")

			k.until(t, "is already closed: it was "+string(state))
			if len(k.scene.verdicts) > 0 {
				t.Errorf("verdicts %+v, want none", k.scene.verdicts)
			}
		})
	}
}

// TestQuestionEdits approves exactly the edited arguments after showing them, and does not run
// unreadable ones.
func TestQuestionEdits(t *testing.T) {
	t.Parallel()
	k := newAsker(t, &scene{approvals: []perdure.Approval{charge()}}, nil)

	k.press(t, "e")
	k.until(t, "as JSON in one line: ")
	k.press(t, "nonsense")
	k.until(t, "nothing was changed: ")
	k.until(t, approvalPromptText)
	k.press(t, "e")
	k.until(t, "as JSON in one line: ")
	k.press(t, "[1]")
	k.until(t, "arguments must be a JSON object")
	k.until(t, approvalPromptText)
	k.press(t, "e")
	k.until(t, "as JSON in one line: ")
	k.press(t, `{"to":"bob\u202e"}`)
	k.until(t, `"to": "bob\u202e"`)
	k.until(t, approvalPromptText)
	if len(k.scene.verdicts) > 0 {
		t.Fatalf("verdicts %+v before the yes", k.scene.verdicts)
	}
	k.press(t, "y")
	_ = k.keys.Close() // no question is open, so nothing reads it
	k.settles(t)

	if len(k.scene.verdicts) != 1 || !k.scene.verdicts[0].Approve || string(k.scene.verdicts[0].Args) != `{"to":"bob\u202e"}` && string(k.scene.verdicts[0].Args) != "{\"to\":\"bob\u202e\"}" {
		t.Errorf("verdicts %+v, want a yes with what was typed", k.scene.verdicts)
	}
	if strings.Contains(k.said.String(), "\u202e") {
		t.Error("what turns the line reached the terminal")
	}
}
