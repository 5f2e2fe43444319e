package mcptool_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/tool/mcptool"
)

// saysNote and pings are functions of a shell script: a numbered notification, and a ping whose
// answer has been read when it returns. The broker answers a ping while no client is connected, so
// it has then read all that the script wrote before.
const saysNote = `note() { echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"note '$1';"}}'; }
pings() { echo '{"jsonrpc":"2.0","id":"ping '$1'","method":"ping"}'; while read -r answer; do case $answer in *'"id":"ping '$1'"'*) break ;; esac; done; }
`

// saysOver answers the first line of a client, so that the client knows that it has read all that
// came before.
const saysOver = `; read -r line; echo '{"jsonrpc":"2.0","method":"over"}'; while read -r line; do :; done`

// notes are the numbers of the notes among lines.
func notes(lines []string) (all []string) {
	for _, text := range lines {
		if _, after, ok := strings.Cut(text, `"note `); ok {
			number, _, _ := strings.Cut(after, ";")
			all = append(all, number)
		}
	}
	return all
}

// awaitFile waits until a file is there.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s is not there", path)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestSaidBeforeTheFirstClient: what a server says at once is held for the first client, however
// late it connects, in order and beside what the server asks.
func TestSaidBeforeTheFirstClient(t *testing.T) {
	t.Parallel()
	read := filepath.Join(t.TempDir(), "read")
	k := keepShell(t, saysNote+`note 1; note 2; echo '{"jsonrpc":"2.0","id":"q","method":"roots/list"}'; note 3; pings a; touch `+read+saysOver)
	awaitFile(t, read)

	conn := k.dial(t)
	conn.say(`{"jsonrpc":"2.0","method":"begin"}`)
	said := conn.hear(`"over"`)

	if got := notes(said); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("got notes %v, want 1, 2 and 3", got)
	}
	if len(said) != 6 || !strings.Contains(said[0], "born") || !strings.Contains(said[3], "roots/list") {
		t.Errorf("got %q, want the greeting, two notes, the question, a note and the end", said)
	}
}

// TestSaidBetweenClients: messages of a server after a client has left are held for the next one,
// and its requests to the client that left, or to no client, are refused at once.
func TestSaidBetweenClients(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	read, refused := filepath.Join(dir, "read"), filepath.Join(dir, "refused")
	k := keepShell(t, saysNote+`read -r line; note 1; echo '{"jsonrpc":"2.0","id":"q1","method":"roots/list"}'; read -r answer; echo "$answer" >>`+refused+
		`; note 2; echo '{"jsonrpc":"2.0","id":"q2","method":"roots/list"}'; read -r answer; echo "$answer" >>`+refused+`; note 3; pings a; touch `+read+saysOver)
	first := k.dial(t)
	first.say(`{"jsonrpc":"2.0","method":"begin"}`)
	if got := notes(first.hear("q1")); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the first client got notes %v, want 1", got)
	}
	_ = first.Close()
	awaitFile(t, read)

	second := k.dial(t)
	second.say(`{"jsonrpc":"2.0","method":"begin"}`)
	said := second.hear(`"over"`)

	if got := notes(said); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("the second client got notes %v, want 2 and 3", got)
	}
	answers, err := os.ReadFile(refused)
	if err != nil || strings.Count(string(answers), "the client is not connected") != 2 || !strings.Contains(string(answers), `"q1"`) || !strings.Contains(string(answers), `"q2"`) {
		t.Errorf("the server was answered %q, %v", answers, err)
	}
}

// TestHeldIsBounded: of a server that says much while no client is connected the last of it is
// held, and the next client learns how much was dropped.
func TestHeldIsBounded(t *testing.T) {
	t.Parallel()
	const said = 3000
	read := filepath.Join(t.TempDir(), "read")
	k := keepShell(t, saysNote+`i=0; while [ $i -lt `+fmt.Sprint(said)+` ]; do i=$((i+1)); note "$i;`+strings.Repeat("x", 1000)+`"; done; pings a; touch `+read+saysOver)
	awaitFile(t, read)

	conn := k.dial(t)
	conn.say(`{"jsonrpc":"2.0","method":"begin"}`)
	lines := conn.hear(`"over"`)

	got := notes(lines)
	bytes := len(strings.Join(lines, ""))
	if len(got) == 0 || got[len(got)-1] != fmt.Sprint(said) || got[0] != fmt.Sprint(said-len(got)+1) {
		t.Fatalf("got %d notes, want the last ones of %d, without a gap", len(got), said)
	}
	if bytes > 1<<20+4<<10 || bytes < 1<<20-4<<10 {
		t.Errorf("got %d bytes, want 1 MiB", bytes)
	}
	if want := fmt.Sprintf(`"dropped":%d`, said-len(got)); !strings.Contains(lines[0], want) {
		t.Errorf("got greeting %q, want %s", lines[0], want)
	}
}

// TestClientOfAServerThatSpeaksFirst: a client handles the messages that were held for it. If some
// were dropped it reads the tools again, since a change notification may have been among them.
func TestClientOfAServerThatSpeaksFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		notes   int
		changed bool
	}{"little": {3, false}, "much": {3000, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := filepath.Join(t.TempDir(), "read")
			k := keepShell(t, saysNote+`i=0; while [ $i -lt `+fmt.Sprint(c.notes)+` ]; do i=$((i+1)); note "$i;`+strings.Repeat("x", 1000)+`"; done; pings a; touch `+read+"\n"+speaks(saysDone))
			awaitFile(t, read)

			var changed atomic.Int32
			client, err := mcptool.Open(t.Context(), mcptool.Config{
				Dial:           func(ctx context.Context) (io.ReadWriteCloser, error) { return k.connect(ctx) },
				OnToolsChanged: func() { changed.Add(1) },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close(false)
			all, err := mcptool.Tools(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}

			if r := run(t, all[0], "k"); !r.IsSuccess() {
				t.Errorf("got %s %q", r.ErrorKind, r.Text)
			}
			if got := changed.Load() > 0; got != c.changed {
				t.Errorf("the tools are taken for changed: got %t, want %t", got, c.changed)
			}
		})
	}
}

// TestInitializedOnce: a server that has not yet answered when its client leaves is not asked to
// initialize again, and its answer is that of the next client.
func TestInitializedOnce(t *testing.T) {
	t.Parallel()
	asked := filepath.Join(t.TempDir(), "asked")
	k := keepShell(t, `read -r line; touch `+asked+`; read -r line; case $line in *initialize*) echo '{"jsonrpc":"2.0","method":"asked twice"}' ;; esac
echo '{"jsonrpc":"2.0","id":"a","result":{"is":"it"}}'; while read -r line; do :; done`)
	first := k.dial(t)
	first.say(`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}`)
	awaitFile(t, asked)
	_ = first.Close()

	second := k.dial(t)
	second.say(`{"jsonrpc":"2.0","id":"b","method":"initialize","params":{}}`)
	second.say(`{"jsonrpc":"2.0","method":"begin"}`)
	said := strings.Join(second.hear(`"is":"it"`), "")

	if strings.Contains(said, "asked twice") || !strings.Contains(said, `"id":"b"`) {
		t.Errorf("got %q, want one answer, with the id of the second client", said)
	}
}
