package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// OfImage is the path of an image.
type OfImage struct {
	OfSession
	Image perdure.ImageID `path:"image" example:"image_019aa0000000700080000000000000aa" doc:"The id of the image."`
}

// uploadedImage is the response to an upload.
type uploadedImage struct {
	Location string `header:"Location"`
	Body     engine.Image
}

func (a imageHandlers) register() {
	missing := []int{http.StatusNotFound}
	binary := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	writeAs(a.API, operation{
		method: http.MethodPost, id: "put-image", path: "/v1/sessions/{id}/images", policy: writes, summary: "Store an image with a session; the same bytes under the same name are one image",
		status: http.StatusCreated, errors: append(missing, http.StatusTooManyRequests), maxBody: engine.MaxImageBytes, media: anyMedia,
	}, &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"image/*": binary}}, a.putImage)
	read(a.API, operation{
		id: "list-images", path: "/v1/sessions/{id}/images", policy: reads, summary: "List the images of a session, in the order in which they were stored", errors: missing,
	}, a.listImages)
	read(a.API, operation{
		id: "get-image", path: "/v1/sessions/{id}/images/{image}", policy: reads, summary: "Read the bytes of an image or, with Accept: application/json, its description", errors: missing,
		forms: map[string]*huma.MediaType{"image/*": binary, formJSON: {Schema: schema[engine.Image](a.API)}},
	}, a.getImage)
	erase(a.API, operation{
		id: "delete-image", path: "/v1/sessions/{id}/images/{image}", policy: writes, summary: "Delete an image", errors: missing,
	}, func(ctx context.Context, in *OfImage) (*nothing, error) {
		return goneIfRepeated(ctx, a.cfg.Engine.Images().Remove(ctx, in.ID, in.Image))
	})
}

func (a imageHandlers) putImage(ctx context.Context, in *struct {
	OfSession
	Filename string `query:"filename" maxLength:"255" example:"plot.png" doc:"A name for people. The type follows from the bytes."`
}) (*uploadedImage, error) {
	made, err := a.cfg.Engine.Images().Put(ctx, in.ID, engine.ImageWrite{Filename: in.Filename, Content: requestOf(ctx).body})
	return &uploadedImage{Location: "/v1/sessions/" + string(in.ID) + "/images/" + string(made.ID), Body: made}, err
}

func (a imageHandlers) listImages(ctx context.Context, in *struct {
	OfSession
	Paged
}) (*page[engine.Image], error) {
	return pageOfAppended(a.API, in.Paged, appendedList[engine.Image]{
		name:  "images " + string(in.ID),
		all:   func() ([]engine.Image, error) { return a.cfg.Engine.Images().List(ctx, in.ID) },
		match: func(engine.Image) bool { return true },
		id:    func(i engine.Image) string { return string(i.ID) },
	})
}

// getImage answers with the bytes of an image, with the type that they have, for download only.
func (a imageHandlers) getImage(ctx context.Context, in *struct {
	OfImage
	Accept      string `header:"Accept" hidden:"true"`
	IfNoneMatch string `header:"If-None-Match" doc:"The ETag of the image that you have. An image never changes."`
}) (*streamed, error) {
	i, err := a.cfg.Engine.Images().Get(ctx, in.ID, in.Image, false)
	if err != nil {
		return nil, err
	}
	form := negotiate(in.Accept, i.ContentType, formJSON)
	switch form {
	case "":
		return nil, notAcceptable(i.ContentType, formJSON)
	case i.ContentType:
		if i, err = a.cfg.Engine.Images().Get(ctx, in.ID, in.Image, true); err != nil {
			return nil, err
		}
	}
	return &streamed{Body: func(c huma.Context) {
		tag := `"` + string(i.ID) + `"`
		if form == formJSON {
			tag = `"` + string(i.ID) + `-description"`
		}
		c.SetHeader("ETag", tag)
		c.SetHeader("Vary", "Accept")
		if notModified(in.IfNoneMatch, tag) {
			c.SetStatus(http.StatusNotModified)
			return
		}
		c.SetHeader("Content-Type", form)
		c.SetHeader("Last-Modified", i.CreatedAt.UTC().Format(http.TimeFormat))
		if form == formJSON {
			c.SetStatus(http.StatusOK)
			_ = writeJSON(c.BodyWriter(), i) // the client may be gone; it can ask again
			return
		}
		c.SetHeader("Content-Disposition", "attachment")
		c.SetStatus(http.StatusOK)
		_, _ = c.BodyWriter().Write(i.Content) // likewise
	}}, nil
}
