package enginetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure/engine"
)

// answered is the text of responses as a follower reconstructs it.
type answered struct {
	text   string
	pieces int
	holes  int // pieces beyond the known text
}

// take applies a frame by the rule of output.message.delta.
func (a *answered) take(f engine.Frame) error {
	d, err := pieceOf(f)
	if d == nil || err != nil {
		return err
	}
	a.pieces++
	if d.Offset > len(a.text) {
		a.holes++
		return nil
	}
	a.text = a.text[:d.Offset] + d.Delta
	return nil
}

// joinsAnswer follows a response from its middle: the text so far arrives once, then only new text,
// and no piece is missing.
func joinsAnswer(t *testing.T, open Harness) { // ST4
	s := begin(t, open, streaming(""))
	s.keptMidway()
	last := s.fold().Seq
	for _, after := range []int64{0, last} {
		var got answered
		enough := errors.New("enough")
		err := s.eng.Follow(s.ctx, s.id, after, func(f engine.Frame) error {
			if err := got.take(f); err != nil {
				return err
			}
			if got.pieces == 2 || got.text == slowText {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || got.text == "" || !strings.HasPrefix(slowText, got.text) || got.holes > 0 {
			t.Errorf("after %d: got %+v, %v; journal:\n%s", after, got, err, s.journalText())
		}
	}
	s.rest()
	s.wants("agent: " + slowText)
}

// joinsPause follows a response that pauses: the text before the pause arrives, even if nothing new
// follows.
func joinsPause(t *testing.T, open Harness) { // ST4
	setup := streaming("")
	setup.Script = "prefix: true\nsteps:\n  - text: " + slowText + "\n    chunk: 16\n    pace: 1h\n"
	s := begin(t, open, setup)
	s.midway()
	for _, after := range []int64{0, s.fold().Seq} {
		var got answered
		enough := errors.New("enough")
		err := s.eng.Follow(s.ctx, s.id, after, func(f engine.Frame) error {
			if err := got.take(f); err != nil || got.pieces == 0 {
				return err
			}
			return enough
		})
		if !errors.Is(err, enough) || got.text != slowText[:16] || got.holes > 0 {
			t.Errorf("after %d: got %+v, %v; journal:\n%s", after, got, err, s.journalText())
		}
	}
}
