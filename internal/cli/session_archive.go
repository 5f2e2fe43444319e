package cli

import (
	"bufio"
	"bytes"
	"io"

	"github.com/perdure/perdure"
)

// maxHeadBytes is how long the first line of an export is looked at.
const maxHeadBytes = 1 << 20

// exportHead is what the first line of an export says.
type exportHead struct {
	Session string `json:"session_id"`
	AtRest  bool   `json:"at_rest"`
	LeftOut []struct {
		Kind    string `json:"kind"`
		Name    string `json:"name"`
		Session string `json:"session_id"`
	} `json:"left_out"`
}

// parseHead reads a first line; the zero value: it is none.
func parseHead(line []byte) (head exportHead) {
	if perdure.DecodeKnownJSON(line, &head) != nil {
		return exportHead{}
	}
	return head
}

// peekHead reads the first line of an export, and returns a reader of all of it.
func peekHead(in io.Reader) (exportHead, io.Reader) {
	buffered := bufio.NewReaderSize(in, maxHeadBytes)
	for n := 4 << 10; ; n *= 2 { // Peek waits for as many bytes as it is asked for, or the end
		text, err := buffered.Peek(min(n, maxHeadBytes))
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			return parseHead(text[:end]), buffered
		}
		if err != nil || n >= maxHeadBytes {
			return exportHead{}, buffered
		}
	}
}

// leftOut names what an export does not have.
func (a *app) leftOut(head exportHead) {
	for _, one := range head.LeftOut {
		a.say("left out: %s %s of %s", a.line(one.Kind, cellChars), a.line(one.Name, 200), a.line(one.Session, cellChars))
	}
}

// allBut says how much an export has.
func allBut(head exportHead) string {
	if len(head.LeftOut) > 0 {
		return "all that belongs to it but what is named as left out"
	}
	return "all that belongs to it"
}

// headTeller passes an export on, and tells its first line before it writes anything.
type headTeller struct {
	to   io.Writer
	tell func(exportHead)
	head exportHead
	line []byte // as far as the first line has come
	past bool   // it is passed on
}

// Write implements io.Writer.
func (w *headTeller) Write(p []byte) (int, error) {
	if w.past {
		return w.to.Write(p)
	}
	w.line = append(w.line, p...)
	end := bytes.IndexByte(w.line, '\n')
	if end < 0 && len(w.line) < maxHeadBytes {
		return len(p), nil
	}
	if end >= 0 {
		w.head = parseHead(w.line[:end])
		w.tell(w.head)
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush passes on what was held while the first line was not complete: an answer may have no line end at all.
func (w *headTeller) flush() error {
	w.past = true
	_, err := w.to.Write(w.line)
	w.line = nil
	return err
}
