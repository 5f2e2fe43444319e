package ledger_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/examples/ledger"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/file"
	"github.com/perdure/perdure/tool/session"
)

// script is a model that stores a key, writes a note, has it signed in the background, and then
// reads the signature.
const script = `
steps:
  - calls:
      - {name: secret_store, args: {operation: set, name: signing_key, value: correct-horse}}
      - {name: write_file, args: {path: /tea, content: black}}
  - calls: # a step of its own, because the calls of one step run at the same time
      - {name: spawn_background, args: {tool: sign_notes, args: {folder: /}}}
  - text: It is being signed.
  - calls: [{name: read_file, args: {path: /signatures}}]
  - text: "{{last}}"
`

// TestSignNotes has notes signed in the background, by an engine over a data directory.
func TestSignNotes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	eng, err := open(t, script)
	if err != nil {
		t.Fatal(err)
	}
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err == nil {
		_, err = eng.Send(ctx, s.ID, perdure.Text("sign the notes"))
	}
	if err == nil {
		err = eng.Sessions().WaitIdle(ctx, s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}

	events, err := eng.Events(ctx, s.ID, 0, 0)
	tasks, listed := eng.Tasks().List(ctx, s.ID)

	mac := hmac.New(sha256.New, []byte("correct-horse"))
	mac.Write([]byte("black"))
	signed := slices.ContainsFunc(events, func(e perdure.Event) bool {
		said, ok := e.Fact.(perdure.OutputCompleted)
		return ok && strings.Contains(said.Message.Text(), fmt.Sprintf("%x /tea", mac.Sum(nil)))
	})
	reported := slices.ContainsFunc(events, func(e perdure.Event) bool {
		return e.Type() == "x.sign_notes.signed" && e.Task == tasks[0].ID
	})
	if !reported {
		t.Errorf("the tool's own event is not in the journal: %+v", events)
	}
	if err != nil || !signed {
		t.Errorf("the signature of /tea was not read: %v\n%+v", err, events)
	}
	if listed != nil || len(tasks) != 1 || tasks[0].State != perdure.TaskSucceeded || tasks[0].Progress == nil {
		t.Errorf("the task is %+v, %v", tasks, listed)
	}
}

// open runs an engine until the test ends.
func open(t *testing.T, script string) (*local.Engine, error) {
	t.Helper()
	dir := t.TempDir()
	st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { st.Close() })
	home, err := local.OpenDataDir(t.Context(), local.DataDirConfig{Dir: dir, Store: st})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { home.Close() })
	model, err := scripted.Parse("sign", []byte(script))
	if err != nil {
		return nil, err
	}
	tools := tool.NewRegistry(slices.Concat([]tool.Tool{ledger.SignNotes()}, file.Tools(), background.Tools(background.Config{}), session.StorageTools())...)
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: model, Tools: tools, Storage: home.Storage})
	if err != nil {
		return nil, err
	}
	work, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(work) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
	return eng, nil
}
