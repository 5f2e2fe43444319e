package mcptool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"regexp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure"
)

// metaUnread marks an answer that the keeper gave, instead of one of the server that cannot be read.
const metaUnread = "io.github.perdure/unread"

// unread is an answer that came and cannot be read: the server ended the call, and nobody knows with what.
type unread struct{ why string }

// Error says why.
func (u *unread) Error() string { return u.why }

// unreadAnswer stands for it on the wire.
func unreadAnswer(id jsonrpc.ID, why error) []byte {
	failed := map[string]any{"code": jsonrpc.CodeInternalError, "message": why.Error(), "data": map[string]bool{metaUnread: true}}
	return mustJSON(map[string]any{"jsonrpc": "2.0", "id": id.Raw(), "error": failed})
}

// asUnread is what an answer's error says, if the keeper gave it.
func asUnread(err error) error {
	var failed *jsonrpc.Error
	var says struct {
		Unread bool `json:"io.github.perdure/unread"`
	}
	if errors.As(err, &failed) && perdure.DecodeKnownJSON(failed.Data, &says) == nil && says.Unread {
		return &unread{failed.Message}
	}
	return err
}

// maxLine is the longest line of a server that is handed on, in bytes: as long as an answer over HTTP may be.
const maxLine = maxBody

// edge is how much of either end of a line is searched for its id, and all that is kept of one that is too long, in bytes.
const edge = 4 << 10

// nextLine reads a line, without the space around it. errTooLong: it has only its ends, and the next one can be read.
func nextLine(in *bufio.Reader) (text []byte, err error) {
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if text = append(text, part...); len(text) > maxLine {
			long, text = true, ends(text)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err
		case long:
			return bytes.TrimSpace(bytes.Clone(ends(text))), errTooLong
		default:
			return bytes.TrimSpace(text), nil
		}
	}
}

// ends cuts out what is between the ends.
func ends(text []byte) []byte {
	if len(text) <= 2*edge {
		return text
	}
	return append(text[:edge], text[len(text)-edge:]...)
}

// line is what counts of a message here.
type line struct {
	id     jsonrpc.ID // what it says, however it is written; not valid: a notification
	method string     // empty: an answer
	result json.RawMessage
	params json.RawMessage
}

// readLine understands a message, if the SDK does, too: it ends a connection over one that it does not.
func readLine(text []byte) (line, error) {
	var whole struct{}
	if err := perdure.DecodeKnownJSON(text, &whole); err != nil {
		return line{}, err
	}
	m, err := jsonrpc.DecodeMessage(text)
	switch m := m.(type) {
	case *jsonrpc.Request:
		return line{id: m.ID, method: m.Method, params: m.Params}, nil
	case *jsonrpc.Response:
		return line{id: m.ID, result: m.Result}, nil
	}
	return line{}, err
}

// The ends of an answer that stands in its line as others write them: with its id before what it came to, or as the last.
const (
	idFirst = `^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("(?:[^"\\]|\\.)*"|\d+)\s*,`
	idLast  = `,\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}$`
	outcome = `"(?:result|error)"\s*:`
)

// answeredBy finds whose answer a line is that cannot be read. What only speaks of a call, as a log does, answers none.
func answeredBy(text []byte) (jsonrpc.ID, bool) {
	first, last := text[:min(len(text), edge)], text[max(0, len(text)-edge):]
	both := append(bytes.Clone(first), last...)
	if !bytes.Contains(both, []byte(`"jsonrpc"`)) || !regexp.MustCompile(outcome).Match(both) {
		return jsonrpc.ID{}, false
	}
	found := regexp.MustCompile(idFirst).FindSubmatch(first)
	if found == nil {
		found = regexp.MustCompile(idLast).FindSubmatch(last)
	}
	if found == nil {
		return jsonrpc.ID{}, false
	}
	return idOf(found[1])
}

// idOf is what an id says.
func idOf(text json.RawMessage) (jsonrpc.ID, bool) {
	var id any
	if perdure.DecodeJSON(text, &id) != nil {
		return jsonrpc.ID{}, false
	}
	if n, ok := id.(json.Number); ok {
		id, _ = n.Float64() // as the SDK reads numbers
	}
	made, err := jsonrpc.MakeID(id)
	return made, err == nil && made.IsValid()
}
