package app

import (
	"bytes"
	"context"
	"io"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// readerImages implements engine.Images for reader.
type readerImages struct {
	engine.Images
	readerNoun[engine.Images]
}

func (r *reader) Images() engine.Images {
	return readerImages{r.remoteEngine.Images(), nounOf(r, engine.Engine.Images)}
}

func (r readerImages) List(ctx context.Context, id perdure.SessionID) ([]engine.Image, error) {
	return ask1(ctx, r.readerNoun, engine.Images.List, id)
}

func (r readerImages) Get(ctx context.Context, id perdure.SessionID, image perdure.ImageID, content bool) (engine.Image, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (engine.Image, error) {
		return eng.Images().Get(ctx, id, image, content)
	})
}

// readerDatabases implements engine.Databases for reader.
type readerDatabases struct {
	engine.Databases
	readerNoun[engine.Databases]
}

func (r *reader) Databases() engine.Databases {
	return readerDatabases{r.remoteEngine.Databases(), nounOf(r, engine.Engine.Databases)}
}

func (r readerDatabases) List(ctx context.Context, id perdure.SessionID) ([]engine.Database, error) {
	return ask1(ctx, r.readerNoun, engine.Databases.List, id)
}

func (r readerDatabases) Query(ctx context.Context, id perdure.SessionID, q engine.DatabaseQuery) (engine.DatabaseRows, error) {
	return ask2(ctx, r.readerNoun, engine.Databases.Query, id, q)
}

// Dump implements engine.Databases. It buffers the dump, because the holder may go away in the
// middle.
func (r readerDatabases) Dump(ctx context.Context, id perdure.SessionID, database string, w io.Writer) error {
	text, err := ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]byte, error) {
		var out bytes.Buffer
		err := eng.Databases().Dump(ctx, id, database, &out)
		return out.Bytes(), err
	})
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// readerPayments implements engine.Payments for reader.
type readerPayments struct {
	engine.Payments
	readerNoun[engine.Payments]
}

func (r *reader) Payments() engine.Payments {
	return readerPayments{r.remoteEngine.Payments(), nounOf(r, engine.Engine.Payments)}
}

func (r readerPayments) List(ctx context.Context, f engine.PaymentFilter) ([]engine.Payment, error) {
	return ask1(ctx, r.readerNoun, engine.Payments.List, f)
}

func (r readerPayments) Get(ctx context.Context, id string) (engine.Payment, error) {
	return ask1(ctx, r.readerNoun, engine.Payments.Get, id)
}
