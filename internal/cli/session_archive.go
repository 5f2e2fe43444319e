package cli

import (
	"bufio"
	"bytes"
	"io"

	"github.com/perdure/perdure"
)

// maxHeadBytes is the maximum length of the first line of an export.
const maxHeadBytes = 1 << 20

// exportHead is the first line of an export.
type exportHead struct {
	Session string `json:"session_id"`
	AtRest  bool   `json:"at_rest"`
	LeftOut []struct {
		Kind    string `json:"kind"`
		Name    string `json:"name"`
		Session string `json:"session_id"`
	} `json:"left_out"`
}

// parseHead decodes a first line. It returns the zero value when the line is not one.
func parseHead(line []byte) (head exportHead) {
	if perdure.DecodeKnownJSON(line, &head) != nil {
		return exportHead{}
	}
	return head
}

// peekHead reads the first line of an export, and returns a reader of the whole export.
func peekHead(in io.Reader) (exportHead, io.Reader) {
	buffered := bufio.NewReaderSize(in, maxHeadBytes)
	for n := 4 << 10; ; n *= 2 { // Peek blocks until it has as many bytes as requested, or the input ends
		text, err := buffered.Peek(min(n, maxHeadBytes))
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			return parseHead(text[:end]), buffered
		}
		if err != nil || n >= maxHeadBytes {
			return exportHead{}, buffered
		}
	}
}

// leftOut prints what an export does not contain.
func (a sessionText) leftOut(head exportHead) {
	for _, one := range head.LeftOut {
		a.message("left out: %s %s of %s", a.oneLine(one.Kind, cellChars), a.oneLine(one.Name, 200),
			a.oneLine(one.Session, cellChars))
	}
}

// dataScope describes how complete an export is.
func dataScope(head exportHead) string {
	if len(head.LeftOut) > 0 {
		return "all its data except what is listed as left out"
	}
	return "all its data"
}

// exportHeadWriter forwards an export, and reports its first line before it writes anything.
type exportHeadWriter struct {
	to       io.Writer
	tell     func(exportHead)
	head     exportHead
	line     []byte // the first line, as far as it has arrived
	headDone bool   // the first line was forwarded
}

// Write forwards p, or buffers it until the first line is complete.
func (w *exportHeadWriter) Write(p []byte) (int, error) {
	if w.headDone {
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

// flush writes the buffered bytes. An export may be too short to contain a newline.
func (w *exportHeadWriter) flush() error {
	w.headDone = true
	_, err := w.to.Write(w.line)
	w.line = nil
	return err
}
