package mcpclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/model"
)

const (
	// maxOffered bounds how many tools, prompts and resources of a server are
	// known: a model is told all tools with every request.
	maxOffered = 128
	// maxDescription and maxSchema bound what one of them says of itself.
	maxDescription = 4 << 10
	maxSchema      = 32 << 10
	// maxToolName is the longest name that all models take.
	maxToolName = 64
)

// offer is what a server offers.
type offer struct {
	tools     []offeredTool
	prompts   []*sdk.Prompt
	resources []*sdk.Resource
}

// offeredTool is a tool as a model is told of it; real is its name for the
// server.
type offeredTool struct {
	model.Tool
	real string
}

// prefix begins the names of all tools of a server.
func prefix(server string) string { return "mcp__" + server + "__" }

// toolName is the name of a tool for models, which take letters, digits, _ and
// - only. A name that has to be changed gets a part of its hash, so that no two
// tools of a server have one name.
func toolName(server, tool string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, tool)
	name := prefix(server) + clean
	if clean == tool && len(name) <= maxToolName && tool != "" && tool != readResource {
		return name
	}
	sum := sha256.Sum256([]byte(tool))
	return text.Clip(name, maxToolName-9) + "_" + hex.EncodeToString(sum[:4])
}

// list asks a server what it offers.
func (k *client) list(ctx context.Context, session *sdk.ClientSession) (*offer, error) {
	can := session.InitializeResult().Capabilities
	o := &offer{}
	if can == nil {
		return o, nil
	}
	if can.Tools != nil {
		for t, err := range session.Tools(ctx, nil) {
			if err != nil {
				return nil, fmt.Errorf("its tools: %w", err)
			}
			if len(o.tools) == maxOffered {
				k.of.notify("MCP server %s has more than %d tools; the others are left out.", k.server.Name, maxOffered)
				break
			}
			if offered, ok := k.toolOf(t); ok {
				o.tools = append(o.tools, offered)
			}
		}
	}
	if can.Prompts != nil {
		for p, err := range session.Prompts(ctx, nil) {
			if err != nil {
				return nil, fmt.Errorf("its prompts: %w", err)
			}
			if len(o.prompts) == maxOffered {
				break
			}
			o.prompts = append(o.prompts, p)
		}
	}
	if can.Resources != nil {
		for r, err := range session.Resources(ctx, nil) {
			if err != nil {
				return nil, fmt.Errorf("its resources: %w", err)
			}
			if len(o.resources) == maxOffered {
				break
			}
			o.resources = append(o.resources, r)
		}
		o.tools = append(o.tools, k.resourceTool(o.resources))
	}
	// The order of a server may change, and what a model is sent should not.
	slices.SortFunc(o.tools, func(a, b offeredTool) int { return cmp.Compare(a.Name, b.Name) })
	o.tools = slices.CompactFunc(o.tools, func(a, b offeredTool) bool { return a.Name == b.Name })
	return o, nil
}

// toolOf is a tool as a model is told of it, false when it cannot be.
func (k *client) toolOf(t *sdk.Tool) (offeredTool, bool) {
	// The SDK has the schema as a map, so that its bytes are always the same.
	schema, err := json.Marshal(t.InputSchema)
	if t.InputSchema == nil {
		schema = []byte(`{"type":"object"}`)
	}
	var check struct {
		Type string `json:"type"`
	}
	if err != nil || len(schema) > maxSchema || json.Unmarshal(schema, &check) != nil || check.Type != "object" {
		k.of.notify("MCP server %s: its tool %.60q cannot be used: its schema is longer than %d bytes, or none of type object.", k.server.Name, t.Name, maxSchema)
		return offeredTool{}, false
	}
	return offeredTool{model.Tool{Name: toolName(k.server.Name, t.Name), Description: described(t.Description), Schema: schema}, t.Name}, true
}

// described is what a server says of something, bounded and valid.
func described(s string) string {
	return text.Shorten(strings.ToValidUTF8(strings.TrimSpace(s), "\uFFFD"), maxDescription)
}

// readResource is the name of the tool that reads resources. A tool of the
// server that has this name gets another one.
const readResource = "read_resource"

// resourceTool is the tool that reads the resources of a server.
func (k *client) resourceTool(all []*sdk.Resource) offeredTool {
	var b strings.Builder
	fmt.Fprintf(&b, "Reads a resource of the MCP server %s by its uri.", k.server.Name)
	for i, r := range all {
		line := fmt.Sprintf("\n- %s: %s", text.ShortLine(r.URI, 200), text.ShortLine(cmp.Or(r.Description, r.Title, r.Name), 200))
		if b.Len()+len(line) > maxDescription {
			fmt.Fprintf(&b, "\n- and %d more", len(all)-i)
			break
		}
		b.WriteString(line)
	}
	return offeredTool{model.Tool{Name: prefix(k.server.Name) + readResource, Description: b.String(),
		Schema: json.RawMessage(`{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"],"additionalProperties":false}`)}, ""}
}

// adopt takes over what the model was offered of the server in an earlier run,
// so that it need not be started before its first call. It reports whether
// anything is known.
func (k *client) adopt(offered []model.Tool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known != nil {
		return true
	}
	o := &offer{}
	for _, t := range offered {
		if strings.HasPrefix(t.Name, prefix(k.server.Name)) && len(o.tools) < maxOffered {
			o.tools = append(o.tools, offeredTool{Tool: t})
		}
	}
	if len(o.tools) == 0 {
		return false
	}
	k.known = o
	return true
}

func (o *offer) toolNames() (names []string) {
	for _, t := range o.tools {
		names = append(names, t.Name)
	}
	return names
}

func (o *offer) promptNames() (names []string) {
	for _, p := range o.prompts {
		names = append(names, p.Name)
	}
	return names
}

func (o *offer) resourceNames() (names []string) {
	for _, r := range o.resources {
		names = append(names, r.URI)
	}
	return names
}
