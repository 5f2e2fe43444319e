package cli

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// asker is a question that stands on a terminal, and the keys that answer it.
type asker struct {
	c     *conversation
	scene *scene
	said  *talkHeard
	words chan string // pieces of talk, as they come
	keys  *io.PipeWriter
	ended chan error
}

// newAsker asks about one call, and returns when the question stands on the terminal.
func newAsker(t *testing.T, sc *scene, env map[string]string) *asker {
	t.Helper()
	in, keys := io.Pipe()
	k := &asker{scene: sc, words: make(chan string, 1000), keys: keys, ended: make(chan error, 1)}
	k.said = &talkHeard{hear: func(said string) { k.words <- said }}
	a := &app{World: World{Stderr: k.said, Env: func(name string) string { return env[name] }}, stdin: in}
	fold := perdure.NewSession("session_1")
	for _, p := range sc.approvals {
		fold.Approvals[p.ID] = p
	}
	k.c = &conversation{a: a, eng: sc, stream: &stream{id: "session_1", fold: fold}}
	ctx, stop := context.WithCancel(t.Context())
	q := k.c.asking(ctx)
	go func() { k.ended <- q.run(ctx) }()
	t.Cleanup(func() {
		stop()
		_ = keys.Close()
		<-k.ended
	})
	k.until(t, promptYes)
	return k
}

// until waits for words of the talk.
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

// settles waits until nothing is asked any more.
func (k *asker) settles(t *testing.T) {
	t.Helper()
	for k.c.questions.state.Load() != nobodyAsked {
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

// TestQuestionClosesMeanwhile: a question whose time is over, or that somebody else answered, takes no answer any more, whether the
// journal said so before the person spoke or not.
func TestQuestionClosesMeanwhile(t *testing.T) {
	t.Parallel()
	for _, state := range []perdure.ApprovalState{perdure.ApprovalExpired, perdure.ApprovalDenied, perdure.ApprovalVoid} {
		t.Run("the journal says "+string(state), func(t *testing.T) {
			t.Parallel()
			k := newAsker(t, &scene{approvals: []perdure.Approval{charge()}}, nil)
			k.c.stream.mu.Lock()
			clear(k.c.stream.fold.Approvals)
			k.c.stream.mu.Unlock()

			signal(k.c.stream.asked)

			k.until(t, "the question of")
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

// TestQuestionEdits approves with exactly what was typed, once that was shown, and keeps what cannot be read from running.
func TestQuestionEdits(t *testing.T) {
	t.Parallel()
	k := newAsker(t, &scene{approvals: []perdure.Approval{charge()}}, nil)

	k.press(t, "e")
	k.until(t, "as JSON in one line: ")
	k.press(t, "nonsense")
	k.until(t, "nothing was changed: ")
	k.until(t, promptYes)
	k.press(t, "e")
	k.until(t, "as JSON in one line: ")
	k.press(t, "[1]")
	k.until(t, "arguments are a JSON object")
	k.until(t, promptYes)
	k.press(t, "e")
	k.until(t, "as JSON in one line: ")
	k.press(t, `{"to":"bob\u202e"}`)
	k.until(t, `"to": "bob\u202e"`)
	k.until(t, promptYes)
	if len(k.scene.verdicts) > 0 {
		t.Fatalf("verdicts %+v before the yes", k.scene.verdicts)
	}
	k.press(t, "y")
	_ = k.keys.Close() // no question is open any more, so nobody reads it
	k.settles(t)

	if len(k.scene.verdicts) != 1 || !k.scene.verdicts[0].Approve || string(k.scene.verdicts[0].Args) != `{"to":"bob\u202e"}` && string(k.scene.verdicts[0].Args) != "{\"to\":\"bob\u202e\"}" {
		t.Errorf("verdicts %+v, want a yes with what was typed", k.scene.verdicts)
	}
	if strings.Contains(k.said.String(), "\u202e") {
		t.Error("what turns the line reached the terminal")
	}
}
