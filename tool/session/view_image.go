package session

import (
	"context"
	_ "embed" // the text that the model reads
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// ImagesCapability is the capability of view_image.
const ImagesCapability = "session_images"

const viewImageName = "view_image"

//go:embed view_image.md
var viewImageText string

// viewable are the types of images that a result may have (TL17).
var viewable = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

type viewImageIn struct {
	Image perdure.ImageID `json:"image_id,omitempty" jsonschema:"The id of an image of this session"`
	Path  string          `json:"path,omitempty" jsonschema:"The path of a file of the session"`
}

type viewImageOut struct {
	Image     perdure.ImageID `json:"image_id,omitempty"`
	Path      string          `json:"path,omitempty"`
	MediaType string          `json:"media_type"`
	SizeBytes int64           `json:"size_bytes"`
}

// ViewImage returns the tool that shows the model an image of the session or one of its files.
func ViewImage() tool.Tool {
	yes := true
	return tool.New(tool.Spec{
		Name:        viewImageName,
		DisplayName: "View Image",
		Description: strings.TrimSpace(viewImageText),
		Class:       perdure.Pure,
		SessionOnly: true,
		NeedsEnv:    true,
		Narration:   tool.Narration{Started: "Looking at an image[: {path}]", Completed: "Looked at an image[: {path}]", Failed: "Could not look at the image[: {path}]"},
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes, CapabilityID: ImagesCapability},
	}, viewImage)
}

func viewImage(ctx context.Context, in viewImageIn, env tool.Env) (tool.Result, error) {
	switch {
	case (in.Image == "") == (in.Path == ""):
		return tool.Error("Give either image_id or path."), nil
	case in.Path != "":
		return viewFile(ctx, in.Path, env)
	case env.Images == nil:
		return tool.Missing("Image store", viewImageName+" requires the images of a session."), nil
	}
	about, err := env.Images.ImageStat(ctx, in.Image)
	if errors.Is(err, perdure.NotFound) {
		return tool.Failf("There is no image %.80q in this session.", in.Image), nil
	}
	if err != nil {
		return tool.Result{}, fmt.Errorf("view image: %w", err)
	}
	if tooLarge := checkSize(about.SizeBytes); tooLarge != nil {
		return *tooLarge, nil
	}
	out := viewImageOut{Image: about.ID, MediaType: about.ContentType, SizeBytes: about.SizeBytes}
	return tool.Success(out).WithImages(perdure.Image{ID: about.ID, MediaType: about.ContentType}), nil
}

// viewFile shows a file that is an image.
func viewFile(ctx context.Context, path string, env tool.Env) (tool.Result, error) {
	if env.Files == nil {
		return tool.Missing("Session file store", viewImageName+" requires the files of a session."), nil
	}
	about, err := env.Files.Stat(ctx, path)
	if err != nil {
		return tool.Result{}, err
	}
	if tooLarge := checkSize(about.SizeBytes); tooLarge != nil {
		return *tooLarge, nil
	}
	file, err := env.Files.Read(ctx, path)
	if err != nil {
		return tool.Result{}, err
	}
	kind := http.DetectContentType(file.Content)
	if !slices.Contains(viewable, kind) {
		return tool.Failf("Not an image that can be shown: %s. Only PNG, JPEG, GIF and WebP are.", path), nil
	}
	out := viewImageOut{Path: file.Path, MediaType: kind, SizeBytes: int64(len(file.Content))}
	shown := perdure.Image{Base64: base64.StdEncoding.EncodeToString(file.Content), MediaType: kind}
	return tool.Success(out).WithImages(shown), nil
}

// checkSize refuses an image that a result cannot have; nil: it can.
func checkSize(bytes int64) *tool.Result {
	if bytes <= tool.MaxImageBytes {
		return nil
	}
	r := tool.Failf("The image has %d bytes, and at most %d can be shown. Make it smaller first.", bytes, tool.MaxImageBytes)
	return &r
}
