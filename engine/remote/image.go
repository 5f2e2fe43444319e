package remote

import (
	"bytes"
	"context"
	"net/http"
	"net/url"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func imagesPath(id perdure.SessionID) string { return sessionPath(id) + "/images" }

// Put stores an image. A retry finds the same image.
func (e engineImages) Put(ctx context.Context, id perdure.SessionID, w engine.ImageWrite) (engine.Image, error) {
	r := request{what: "store an image of " + string(id), path: imagesPath(id), method: http.MethodPost, raw: w.Content}
	if r.raw == nil {
		r.raw = []byte{}
	}
	if w.Filename != "" {
		r.query = url.Values{"filename": {w.Filename}}
	}
	return fetch[engine.Image](ctx, e.Engine, r)
}

func (e engineImages) List(ctx context.Context, id perdure.SessionID) ([]engine.Image, error) {
	return list[engine.Image](ctx, e.Engine, request{what: "images of " + string(id), path: imagesPath(id)}, 0)
}

func (e engineImages) Get(
	ctx context.Context, id perdure.SessionID, image perdure.ImageID, content bool,
) (i engine.Image, err error) {
	r := request{what: "image " + string(image) + " of " + string(id), path: imagesPath(id) + "/" + segment(image)}
	if _, err = e.call(ctx, r, &i); err != nil || !content {
		return i, err
	}
	var text bytes.Buffer
	r.accept = "image/*"
	if _, err = e.call(ctx, r, &text); err != nil {
		return i, err
	}
	i.Content = append([]byte{}, text.Bytes()...)
	return i, nil
}

func (e engineImages) Remove(ctx context.Context, id perdure.SessionID, image perdure.ImageID) error {
	_, err := e.call(ctx, request{
		what: "remove image " + string(image) + " of " + string(id), path: imagesPath(id) + "/" + segment(image), remove: true,
	}, nil)
	return err
}
