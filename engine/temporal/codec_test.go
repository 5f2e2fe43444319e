package temporal

import (
	"io"
	"log/slog"
	"sync"

	common "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
)

// discard is a log that nobody reads.
func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func discardLogger() log.Logger { return log.NewStructuredLogger(discard()) }

// converted decodes the one payload of a workflow's input.
func converted(input *common.Payloads, out any) error {
	return converter.GetDefaultDataConverter().FromPayloads(input, out)
}

// sync1 is f, run by the first call only.
func sync1(f func()) func() {
	var once sync.Once
	return func() { once.Do(f) }
}

// encoded returns a value as histories have it.
func encoded(value any) ([]byte, error) {
	p, err := converter.GetDefaultDataConverter().ToPayload(value)
	return p.GetData(), err
}
