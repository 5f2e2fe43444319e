package generation

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// request builds the model request from the fold.
func (g *Generator) request(s *perdure.Session, c perdure.CallModel) model.Request {
	req := model.Request{Session: s.ID, Messages: s.Context(), Attempt: c.Attempt}
	if s.Turn != nil {
		req.Model = s.Turn.Model
	}
	prompts := []string{}
	if s.Agent.Instructions != "" {
		prompts = append(prompts, s.Agent.Instructions)
	}
	g.toolset.Start(s.Agent)
	limit := g.toolset.MaxTools(s.ID, cmp.Or(req.Model, s.Agent.Model))
	offered, hidden := g.toolset.Offer(g.toolset.Visible(s.Agent, core.HasDetachedWork(s)), limit, req.Messages)
	tools, parts := g.toolset.Definitions(offered)
	if req.Tools = tools; hidden != "" {
		parts = append(parts, hidden)
	}
	req.System = strings.Join(append(prompts, parts...), "\n\n")
	return req
}

// requestWithAgents is request, with the agents that the model can name in the descriptions of the
// tools that start subagents. If they cannot be read, the model gets the tools without them.
func (g *Generator) requestWithAgents(ctx context.Context, s *perdure.Session, c perdure.CallModel) model.Request {
	req := g.request(s, c)
	if g.core.Agents == nil || !g.toolset.StartsAgents(req.Tools) {
		return req
	}
	agents, err := g.core.Agents.List(ctx, s.ID)
	if err != nil {
		g.core.Log.Warn("the agents for subagents could not be listed", "session", s.ID, "error", err)
		return req
	}
	req.Tools = g.toolset.WithAgents(req.Tools, agents)
	return req
}

// NextRequest returns the request that the model of a session would get now, built as for a real
// step, and the fold it is built from. Input that waits for the next step is not in it. NotFound:
// there is no such session.
func (g *Generator) NextRequest(ctx context.Context, id perdure.SessionID) (req model.Request, s *perdure.Session, err error) {
	err = g.core.Store.View(ctx, func(r store.Reader) error {
		s, err = g.core.Fold(r, id)
		return err
	})
	if err != nil {
		return model.Request{}, nil, err
	}
	return g.requestWithAgents(ctx, s, perdure.CallModel{Attempt: 1}), s, nil
}

// dependency returns an error if the agent, or a harness it inherits from, is archived or deleted.
// An agent that this store does not know belongs to an imported session; its configuration is in
// the journal, so it may continue. A session with neither agent id nor harness needs no read.
func (g *Generator) dependency(ctx context.Context, a perdure.Agent) error {
	if a.ID == "" && a.Harness == "" {
		return nil
	}
	gone := ""
	err := g.core.Store.View(ctx, func(r store.Reader) error {
		gone = ""
		kept, found, err := r.Directory().Agents().Get(a.ID)
		if err != nil {
			return err
		}
		if found && !kept.Status.Usable() {
			gone = fmt.Sprintf("agent %s is %s", a.ID, kept.Status)
		}
		chain, err := r.Directory().Harnesses().Chain(a.Harness)
		if why, ok := agent.FirstUnusable(chain); !ok {
			gone = why
		}
		return err
	})
	switch {
	case errors.Is(err, perdure.Invalid):
		return &model.Error{Code: perdure.CodeDependency, Text: err.Error()}
	case err != nil:
		return &model.Error{Code: model.Unavailable, Text: "the agent's status could not be read", Err: err}
	case gone != "":
		return &model.Error{Code: perdure.CodeDependency, Text: gone}
	}
	return nil
}

// imageUnavailable replaces an image that no longer exists, or that exceeds the size limit.
const imageUnavailable = "[image unavailable]"

// maxImageBytes limits the total size of the images of one request, before base64.
const maxImageBytes = 20 << 20

// resolvedImages returns messages with the images that they name filled in, the newest first. Once
// an image exceeds the limit, the older ones are left out too. A missing image becomes a text that
// says so and never fails the turn. The given messages are not changed.
func (g *Generator) resolvedImages(ctx context.Context, id perdure.SessionID, messages []perdure.Message) []perdure.Message {
	shown := slices.Clone(messages)
	named := namedImages{known: map[perdure.ImageID]*perdure.Image{}, room: base64.StdEncoding.EncodedLen(maxImageBytes),
		read: func(image perdure.ImageID) *perdure.Image { return g.resolveImage(ctx, id, image) }}
	for i, m := range slices.Backward(messages) {
		if slices.ContainsFunc(m.Parts, namesImages) {
			shown[i].Parts = named.resolved(m.Parts)
		}
	}
	return shown
}

// namesImages reports whether a part names stored images.
func namesImages(p perdure.Part) bool {
	return p.Type == perdure.PartImageFile ||
		p.Result != nil && slices.ContainsFunc(p.Result.Images, func(i perdure.Image) bool { return i.ID != "" })
}

// namedImages reads the images of one request.
type namedImages struct {
	known map[perdure.ImageID]*perdure.Image // an image that is named twice is read once and sent twice
	room  int                                // characters of base64 that still fit
	read  func(perdure.ImageID) *perdure.Image
}

// get returns an image; nil: it is not available, or does not fit.
func (n *namedImages) get(id perdure.ImageID) *perdure.Image {
	found, read := n.known[id]
	if !read && n.room > 0 {
		found = n.read(id)
		n.known[id] = found
	}
	if found != nil {
		n.room -= len(found.Base64)
	}
	if n.room < 0 {
		return nil
	}
	return found
}

// resolved returns parts with their images. The text for an image of a result follows the result.
func (n *namedImages) resolved(parts []perdure.Part) []perdure.Part {
	unavailable := perdure.Part{Type: perdure.PartText, Text: imageUnavailable}
	var all [][]perdure.Part
	for _, p := range slices.Backward(parts) {
		switch {
		case p.Type == perdure.PartImageFile:
			var image *perdure.Image
			if p.ImageFile != nil {
				image = n.get(p.ImageFile.ID)
			}
			if p = (perdure.Part{Type: perdure.PartImage, Image: image, Untrusted: p.Untrusted}); image == nil {
				p = unavailable
			}
			all = append(all, []perdure.Part{p})
		case namesImages(p):
			result := *p.Result
			result.Images = nil
			var missing []perdure.Part
			for _, image := range slices.Backward(p.Result.Images) {
				own := &image
				if image.ID != "" {
					own = n.get(image.ID)
				}
				if own == nil {
					missing = append(missing, unavailable)
					continue
				}
				result.Images = append(result.Images, *own)
			}
			slices.Reverse(result.Images)
			p.Result = &result
			all = append(all, append([]perdure.Part{p}, missing...))
		default:
			all = append(all, []perdure.Part{p})
		}
	}
	slices.Reverse(all)
	return slices.Concat(all...)
}

// resolveImage returns an image in the form that a model gets; nil: it is not available.
func (g *Generator) resolveImage(ctx context.Context, id perdure.SessionID, image perdure.ImageID) *perdure.Image {
	if g.core.Ports.Open == nil {
		return nil
	}
	images := g.core.Ports.Open(id, tool.Call{Session: id}).Images
	if images == nil {
		return nil
	}
	found, ok, err := images.Resolve(ctx, image)
	if err != nil {
		g.core.Log.Warn("an image could not be read", "session", id, "image", image, "error", err)
	}
	if err != nil || !ok {
		return nil
	}
	return &perdure.Image{Base64: found.Base64, MediaType: found.MediaType}
}

// What a model call is assumed to use before it starts, where nothing better is known.
const (
	assumedModelTime = 30 * time.Second
	bytesPerToken    = 4
)

// EstimateUse estimates the most that the next model call uses.
func (g *Generator) EstimateUse(s *perdure.Session, model string) meter.WorkUsage {
	req := g.request(s, perdure.CallModel{Attempt: 1})
	size := len(req.System)
	for _, t := range req.Tools {
		size += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	in := int64(size/bytesPerToken + perdure.EstimateTokens(req.Messages) + perdure.EstimateTokens(s.Queue) +
		perdure.EstimateTokens(s.Notifications))
	return meter.WorkUsage{
		Model: g.core.Meter.ModelOf(model),
		Usage: perdure.Usage{InputTokens: in, OutputTokens: int64(g.core.Meter.Answer())}, Duration: assumedModelTime,
	}
}
