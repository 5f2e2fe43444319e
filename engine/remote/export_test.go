package remote

import "io"

// Frame is a frame of a stream, for tests of the reader.
type Frame struct {
	Event, ID, Data string
	HasID           bool
}

// ErrLongFrame is the reader's error for a frame beyond the limit.
var ErrLongFrame = errLongFrame

// ReadFrames reads frames of at most limit bytes until the stream ends.
func ReadFrames(r io.Reader, most int) ([]Frame, error) {
	var all []Frame
	frames := newFrameReader(r, most)
	for {
		got, err := frames.next()
		if err != nil {
			return all, err
		}
		all = append(all, Frame{Event: got.event, ID: got.id, HasID: got.hasID, Data: string(got.data)})
	}
}

// MaxAnswer sets the maximum number of bytes of a response.
func (e *Engine) MaxAnswer(n int64) { e.maxBytes = n }
