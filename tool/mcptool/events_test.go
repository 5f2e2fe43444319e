package mcptool

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// FuzzEvents: whatever the body of an answer is, the SDK gets lines of events whose data are
// messages that it accepts.
func FuzzEvents(f *testing.F) {
	for _, body := range []string{
		"data: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[]}}\n\n", `{"jsonrpc":"2.0","id":"3","result":{"content":"x"}}`,
		"id: 1\nretry: 5\ndata:\n\n", "event: x\r\ndata: 1\r\ndata: 2\r\n\r\n", "\xef\xbb\xbfdata: [{}]", "data: {\"error\":\"Session not found\"}\n\n", ":\n\n", "",
	} {
		f.Add([]byte(body), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, call bool) {
		c := &Client{cfg: Config{Log: slog.New(slog.DiscardHandler)}, calls: map[string]*running{"k": {}}}
		id, _ := jsonrpc.MakeID(float64(3)) // it is a number
		q := &httpRequest{id: id, method: "tools/call", call: "k", session: true}
		w := &httpWire{c: c, made: &connection{}, open: map[string]*httpRequest{"3": q}}
		if !call {
			q = nil
		}

		text, err := io.ReadAll(w.events(q, io.NopCloser(bytes.NewReader(body))))

		if err != nil {
			t.Errorf("%q: %v", body, err)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				continue
			}
			if _, err := jsonrpc.DecodeMessage([]byte(data)); err != nil {
				t.Errorf("%q became %q: %v", body, data, err)
			}
		}
	})
}
