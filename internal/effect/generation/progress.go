package generation

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// ProgressFrame is the type of a frame that holds a StreamProgress.
const ProgressFrame = "output.message.progress"

// progressEvery is how often followers get the progress of an answer at most.
const progressEvery = time.Second

// StreamProgress is the frame that shows how far an open answer is, also while it is only thinking.
type StreamProgress struct {
	MessageID     perdure.MessageID `json:"message_id"`
	TextChars     int               `json:"text_chars"` // so far, with what an earlier attempt stored
	ThinkingChars int               `json:"thinking_chars"`
	LastDeltaAt   time.Time         `json:"last_delta_at"`
}

// progressMeter counts what arrives of an answer, and publishes it at intervals while more arrives.
// Safe for concurrent use.
type progressMeter struct {
	publish func(StreamProgress)

	mu    sync.Mutex // guards the fields below; held while publishing, to keep the order
	now   StreamProgress
	timer *time.Timer // nil: nothing is to be published
	ended bool
}

// add counts a delta.
func (m *progressMeter) add(d model.Delta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.TextChars += utf8.RuneCountInString(d.Text)
	m.now.ThinkingChars += utf8.RuneCountInString(d.Thinking)
	m.now.LastDeltaAt = time.Now().UTC().Truncate(time.Microsecond)
	if m.timer == nil && !m.ended {
		m.timer = time.AfterFunc(progressEvery, m.flush)
	}
}

// flush publishes the present values.
func (m *progressMeter) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer = nil; !m.ended {
		m.publish(m.now)
	}
}

// end stops the meter: the answer is complete.
func (m *progressMeter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended = true; m.timer != nil {
		m.timer.Stop()
	}
}
