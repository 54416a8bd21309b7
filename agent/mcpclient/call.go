package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/tool"
)

// maxImages bounds the images of one result, in bytes.
const maxImages = 8 << 20

// tools are the tools of the server for the conversation.
func (k *client) tools() []tool.Tool {
	k.mu.Lock()
	known := k.known
	k.mu.Unlock()
	if known == nil || k.server.Disabled {
		return nil
	}
	// An approval is for this server: one that is defined otherwise later has
	// another scope, and is asked for again.
	scope := fmt.Sprintf("%s (MCP server, %.8s)", k.server.Name, k.server.hash())
	effect := tool.Runs
	if k.server.Remote() {
		effect = tool.Network
	}
	var all []tool.Tool
	for _, t := range known.tools {
		all = append(all, tool.Tool{
			Name: t.Name, Description: t.Description, Schema: t.Schema, Effect: effect, Command: k.server.What(),
			Scope: func(json.RawMessage) string { return scope },
			Run: func(ctx context.Context, input json.RawMessage) (tool.Result, error) {
				return k.call(ctx, t.Name, input)
			},
		})
	}
	return all
}

func failed(format string, args ...any) (tool.Result, error) {
	return tool.Result{Text: fmt.Sprintf(format, args...), IsError: true}, nil
}

// call calls a tool by the name that the model knows. A call whose server ends
// is not made again: it may have had effects.
func (k *client) call(ctx context.Context, name string, input json.RawMessage) (tool.Result, error) {
	whole := ctx
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	if err := k.of.mayStart(ctx, k.server); err != nil {
		if whole.Err() != nil {
			return tool.Result{}, whole.Err()
		}
		return failed("not run: %s", err)
	}
	session, err := k.running(ctx)
	if err != nil {
		if whole.Err() != nil {
			return tool.Result{}, whole.Err()
		}
		return failed("not run: the MCP server %s cannot be used: %s", k.server.Name, err)
	}
	k.mu.Lock()
	real, there := k.known.real(name)
	k.mu.Unlock()
	if !there {
		return failed("not run: the MCP server %s has no such tool any more", k.server.Name)
	}
	var r tool.Result
	if real == "" {
		r, err = k.read(ctx, session, input)
	} else {
		var answer *sdk.CallToolResult
		if answer, err = session.CallTool(ctx, &sdk.CallToolParams{Name: real, Arguments: arguments(input)}); err == nil {
			r = resultOf(answer)
		}
	}
	var answered *jsonrpc.Error
	switch {
	case err == nil:
		return r, nil
	case whole.Err() != nil:
		return tool.Result{}, whole.Err()
	case ctx.Err() != nil:
		return failed("stopped: no answer within %s. It may have had effects.", callTimeout)
	case errors.As(err, &answered):
		return failed("the MCP server %s says: %s", k.server.Name, strings.ToValidUTF8(err.Error(), "\uFFFD"))
	}
	k.lost(session)
	return failed("interrupted: the MCP server %s ended while this ran (%s). It may have had effects, in whole or in part, and was not run again. The next call starts the server anew.", k.server.Name, err)
}

// real returns the name of a tool for the server, "" for the one that reads
// resources.
func (o *offer) real(name string) (string, bool) {
	for _, t := range o.tools {
		if t.Name == name {
			return t.real, true
		}
	}
	return "", false
}

// arguments are an object, also where a model sends nothing.
func arguments(input json.RawMessage) json.RawMessage {
	if len(strings.TrimSpace(string(input))) == 0 || string(input) == "null" {
		return json.RawMessage(`{}`)
	}
	return input
}

// read reads a resource.
func (k *client) read(ctx context.Context, session *sdk.ClientSession, input json.RawMessage) (tool.Result, error) {
	var a struct {
		URI string `json:"uri"`
	}
	if err := json.Unmarshal(input, &a); err != nil || a.URI == "" {
		return failed(`want {"uri": "…"}`)
	}
	answer, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: a.URI})
	if err != nil {
		return tool.Result{}, err
	}
	var c content
	for _, r := range answer.Contents {
		c.resource(r)
	}
	return c.result(false), nil
}

// resultOf is a result as the model gets it.
func resultOf(answer *sdk.CallToolResult) tool.Result {
	var c content
	for _, part := range answer.Content {
		c.add(part)
	}
	if len(c.text) == 0 && len(c.images) == 0 && answer.StructuredContent != nil {
		if b, err := json.Marshal(answer.StructuredContent); err == nil {
			c.text = append(c.text, string(b))
		}
	}
	return c.result(answer.IsError)
}

// content collects the parts of an answer.
type content struct {
	text   []string
	images []tidemark.Block
	size   int
}

func (c *content) add(part sdk.Content) {
	switch p := part.(type) {
	case *sdk.TextContent:
		c.text = append(c.text, p.Text)
	case *sdk.ImageContent:
		c.image(p.MIMEType, p.Data)
	case *sdk.AudioContent:
		c.text = append(c.text, fmt.Sprintf("[sound, %s, %d bytes: left out]", p.MIMEType, len(p.Data)))
	case *sdk.ResourceLink:
		c.text = append(c.text, fmt.Sprintf("[resource %s: %s]", p.URI, p.Name))
	case *sdk.EmbeddedResource:
		if p.Resource != nil {
			c.resource(p.Resource)
		}
	}
}

func (c *content) resource(r *sdk.ResourceContents) {
	switch {
	case r == nil:
	case len(r.Blob) == 0:
		c.text = append(c.text, r.Text)
	case strings.HasPrefix(r.MIMEType, "image/"):
		c.image(r.MIMEType, r.Blob)
	default:
		c.text = append(c.text, fmt.Sprintf("[%s, %s, %d bytes: left out]", r.URI, r.MIMEType, len(r.Blob)))
	}
}

func (c *content) image(media string, data []byte) {
	if c.size += len(data); c.size > maxImages || !strings.HasPrefix(media, "image/") {
		c.text = append(c.text, fmt.Sprintf("[image, %s, %d bytes: left out]", media, len(data)))
		return
	}
	c.images = append(c.images, tidemark.Block{Type: tidemark.BlockImage, MediaType: media, Data: data})
}

func (c *content) result(isError bool) tool.Result {
	return tool.Result{Text: strings.ToValidUTF8(strings.Join(c.text, "\n"), "\uFFFD"), Blocks: c.images, IsError: isError}
}
