package host

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/tool"
)

// imagesOf returns the images of a session. NotFound: no such session. Unavailable: the ports of
// the program have none that callers can manage.
func (e hostImages) imagesOf(ctx context.Context, id perdure.SessionID) (port tool.Images, all tool.ImageManager, err error) {
	if err := e.checkSession(ctx, id); err != nil {
		return nil, nil, err
	}
	port = e.portsOf(id).Images
	all, ok := port.(tool.ImageManager)
	if !ok {
		return nil, nil, fmt.Errorf("images of %s: %w: this program has its own images, which callers cannot manage", id, perdure.Unavailable)
	}
	return port, all, nil
}

// portsOf returns the ports of a session for its callers.
func (e *Host) portsOf(id perdure.SessionID) tool.Ports {
	return e.cfg.Ports.Open(id, tool.Call{Session: id})
}

func imageOf(i tool.ImageStat) engine.Image {
	return engine.Image{ID: i.ID, Filename: i.Filename, ContentType: i.ContentType, SizeBytes: i.SizeBytes, CreatedAt: i.CreatedAt}
}

// Put stores an image.
func (e hostImages) Put(ctx context.Context, id perdure.SessionID, w engine.ImageWrite) (engine.Image, error) {
	_, images, err := e.imagesOf(ctx, id)
	if err != nil {
		return engine.Image{}, err
	}
	made, err := images.CreateOnce(ctx, tool.ImageWrite{Filename: w.Filename, Data: w.Content})
	return imageOf(made), err
}

// List lists the images of a session.
func (e hostImages) List(ctx context.Context, id perdure.SessionID) (found []engine.Image, err error) {
	_, images, err := e.imagesOf(ctx, id)
	if err != nil {
		return nil, err
	}
	all, err := images.List(ctx)
	for _, i := range all {
		found = append(found, imageOf(i))
	}
	return found, err
}

// Get returns an image.
func (e hostImages) Get(
	ctx context.Context, id perdure.SessionID, image perdure.ImageID, content bool,
) (engine.Image, error) {
	images, _, err := e.imagesOf(ctx, id)
	if err != nil {
		return engine.Image{}, err
	}
	if !content {
		found, err := images.ImageStat(ctx, image)
		return imageOf(found), err
	}
	if err := e.checkFiles(ctx, id); err != nil {
		return engine.Image{}, err
	}
	found, err := images.Image(ctx, image)
	shown := imageOf(found.ImageStat)
	shown.Content = found.Data
	return shown, err
}

// Remove removes an image.
func (e hostImages) Remove(ctx context.Context, id perdure.SessionID, image perdure.ImageID) error {
	_, images, err := e.imagesOf(ctx, id)
	if err != nil {
		return err
	}
	return images.Remove(ctx, image)
}
