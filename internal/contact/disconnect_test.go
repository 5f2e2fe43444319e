//go:build contact

package contact

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What the mock says, in the two steps of a turn.
const (
	firstWords = "I shall write it down."
	lastWords  = "It is written down, once and for all."
)

// cuts says how many events arrive before a connection breaks, once for each number: in the step
// that calls the tool, and in the last one. A turn may lose one answer of a step after its text has
// arrived, and more before.
type cuts struct {
	first, last []int
	silent      bool // the first answer has no text
	whole       bool // the answers are complete then, so they are not asked for again
}

// String names a test.
func (at cuts) String() string {
	name := fmt.Sprint(at.first, at.last)
	if at.silent {
		name += " silent"
	}
	if at.whole {
		name += " whole"
	}
	return name
}

// disconnects returns where the connections break: before anything, in the text, in the arguments
// of the call, before the finish, and between the finish and the end.
func disconnects() map[string][]cuts {
	return map[string][]cuts{
		"openai": {
			{first: []int{0, 1, 3}, last: []int{0, 4}}, {first: []int{1, 6}, last: []int{1, 6}}, {first: []int{10}, last: []int{2}},
			{first: []int{1, 3, 6}, last: []int{0, 1}, silent: true},
		},
		"anthropic": {
			{first: []int{0, 2, 4}, last: []int{0, 3}}, {first: []int{1, 9}, last: []int{2, 7}}, {first: []int{13}, last: []int{8}},
			{first: []int{1, 3, 8}, last: []int{0, 1}, silent: true}, {first: []int{14}, last: []int{9}, whole: true},
		},
	}
}

// pieceChars is the size of the pieces of the mock.
const pieceChars = 8

// answers returns the texts that the journal has in the end: of each step the beginning that
// arrived, if any, and then the whole.
func (at cuts) answers(wire string) (texts []string) {
	before := map[string]int{"openai": 1, "anthropic": 2}[wire] // events before the text
	for step, breaks := range [][]int{at.first, at.last} {
		words := at.words(step)
		arrived := min(pieceChars*max(breaks[len(breaks)-1]-before, 0), len(words))
		if arrived > 0 && !at.whole {
			texts = append(texts, "interrupted: "+words[:arrived])
		}
		texts = append(texts, words)
	}
	return texts
}

// words returns the text of a step.
func (at cuts) words(step int) string {
	switch {
	case step == 1:
		return lastWords
	case at.silent:
		return ""
	}
	return firstWords
}

// TestDisconnects lets a mock of providers break its connections at many places of a two-step tool
// loop, on both wires: the turn ends, the tool ran once, and each whole text is there once.
func TestDisconnects(t *testing.T) {
	_, version := module(t, "@copilotkit/aimock")
	for wire, all := range disconnects() {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			seen := newRow("@copilotkit/aimock as "+wire, version)
			seen.protocol, seen.tools, seen.kinds = "streams that break off", "bash", "text, calls"
			seen.killed, seen.died = "no proxy", "its connections break instead"
			ends := 0
			for _, at := range all {
				if t.Run(fmt.Sprint(at), func(t *testing.T) { tryDisconnects(t, wire, at) }) {
					ends++
				}
			}
			seen.called = fmt.Sprintf("%d of %d turns end as expected", ends, len(all))
			seen.quirks = "it destroys the socket in the middle of a stream"
		})
	}
}

// tryDisconnects runs one turn. Each step of it breaks off after each of its cuts, and is answered
// completely afterwards.
func tryDisconnects(t *testing.T, wire string, at cuts) {
	h := newHome(t)
	url := startMock(t, h, disconnecting(at))
	base := url + "/v1"
	if wire == "anthropic" {
		base = url
	}

	ran := h.perdure("run", "--model", wire+":some-model", "--base-url", base, "--allow-shell", "--workspace", h.work, "go")

	if ran.code != 0 || !strings.HasSuffix(strings.TrimSpace(ran.stdout), lastWords) {
		t.Errorf("run: %s", ran)
	}
	if effect, err := os.ReadFile(filepath.Join(h.work, "effects")); string(effect) != "once\n" {
		t.Errorf("the effects are %q, %v", effect, err)
	}
	if states := h.callStates(); !slices.Equal(states, []string{"settled"}) {
		t.Errorf("the calls are %v", states)
	}
	if texts, want := h.answers(), at.answers(wire); !slices.Equal(texts, want) {
		t.Errorf("the answers are %q, want %q", texts, want)
	}
	asked, broken := requestsOf(t, url)
	breaks := len(at.first) + len(at.last)
	want := breaks + 2
	if at.whole {
		want = 2
	}
	if broken != breaks || asked != want {
		t.Errorf("the mock was asked %d times and broke off %d times, want %d and %d", asked, broken, want, breaks)
	}
}

// disconnecting returns the answers of the mock.
func disconnecting(at cuts) []map[string]any {
	command := map[string]any{"name": "bash", "arguments": `{"command":"echo once >> effects"}`}
	var answers []map[string]any
	for step, breaks := range [][]int{at.first, at.last} {
		response := map[string]any{"content": at.words(step)}
		switch {
		case step == 0 && at.silent:
			response = map[string]any{"toolCalls": []any{command}}
		case step == 0:
			response["toolCalls"] = []any{command}
		}
		for n := range len(breaks) + 1 {
			answer := map[string]any{"step": step, "index": n, "response": response, "chunkSize": pieceChars,
				"latency": 5} // ms, so that each event leaves before the next one
			if n < len(breaks) {
				answer["truncateAfterChunks"] = breaks[n] + 1 // the event at which it breaks is lost
			}
			answers = append(answers, answer)
		}
	}
	return answers
}

// startMock starts the mock with its answers, and returns its URL.
func startMock(t *testing.T, h *home, answers []map[string]any) string {
	t.Helper()
	text, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.dir, "answers.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	mock := exec.Command(nodeProgram(t), "aimock.mjs", path)
	mock.Dir, mock.Stderr = npmFolder, os.Stderr
	in, err := mock.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := mock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := mock.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it may have ended
		_ = mock.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the mock printed no URL: %v", err)
	}
	return strings.TrimSpace(url)
}

// requestsOf returns how many requests for answers the mock got, and how many of them it broke off.
func requestsOf(t *testing.T, url string) (asked, broken int) {
	t.Helper()
	answer, err := http.Get(url + "/__aimock/journal")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var entries []struct {
		Method   string `json:"method"`
		Response struct {
			Interrupted bool `json:"interrupted"`
		} `json:"response"`
	}
	if err := json.Unmarshal(text, &entries); err != nil {
		t.Fatalf("the journal of the mock: %v; %.300s", err, text)
	}
	for _, e := range entries {
		if e.Method == http.MethodPost {
			asked++
		}
		if e.Response.Interrupted {
			broken++
		}
	}
	return asked, broken
}

// answers returns the texts of the model's complete answers in the journal of the last session.
func (h *home) answers() (texts []string) {
	h.t.Helper()
	listed := h.perdure("event", "list", "last", "--type", "output.message.completed", "-o", "jsonl")
	for entry := range bytes.Lines([]byte(listed.stdout)) {
		var e struct {
			Data struct {
				Interrupted bool `json:"interrupted"`
				Message     struct {
					Parts []struct {
						Text string `json:"text"`
					} `json:"parts"`
				} `json:"message"`
			} `json:"data"`
		}
		if err := json.Unmarshal(entry, &e); err != nil {
			h.t.Fatalf("event list: %v; %s", err, listed)
		}
		text := ""
		for _, part := range e.Data.Message.Parts {
			text += part.Text
		}
		if e.Data.Interrupted {
			text = "interrupted: " + text
		}
		texts = append(texts, text)
	}
	return texts
}
