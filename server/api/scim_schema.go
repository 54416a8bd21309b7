package api

import (
	"net/http"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// What a SCIM client may ask about the server itself.

func scimServiceProvider(scimCall) (scimAnswer, error) {
	supported := func(is bool) resource { return resource{"supported": is} }
	return scimAnswer{http.StatusOK, resource{"schemas": []string{scimConfig}, "patch": supported(true), "changePassword": supported(false), "sort": supported(false), "etag": supported(true),
		"bulk":                  resource{"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
		"filter":                resource{"supported": true, "maxResults": maxSCIMCount},
		"authenticationSchemes": []resource{{"type": "oauthbearertoken", "name": "Service token", "description": "A service token of the tenant with the role admin and the scope scim", "primary": true}},
		"meta":                  resource{"resourceType": "ServiceProviderConfig", "location": SCIMPath + "/ServiceProviderConfig"}}}, nil
}

// scimResourceTypes answers with both, or with one.
func scimResourceTypes(c scimCall) (scimAnswer, error) {
	var all []resource
	for _, kind := range []struct{ name, schema string }{{"User", scimUser}, {"Group", scimGroup}} {
		all = append(all, resource{"schemas": []string{scimType}, "id": kind.name, "name": kind.name, "endpoint": "/" + kind.name + "s", "schema": kind.schema,
			"meta": resource{"resourceType": "ResourceType", "location": SCIMPath + "/ResourceTypes/" + kind.name}})
	}
	return c.oneOrAll(all)
}

// oneOrAll answers with the resource that the path names, or with all.
func (c scimCall) oneOrAll(all []resource) (scimAnswer, error) {
	id := c.PathValue("id")
	if id == "" {
		return c.list(all)
	}
	if i := slices.IndexFunc(all, func(r resource) bool { return r["id"] == id }); i >= 0 {
		return scimAnswer{http.StatusOK, all[i]}, nil
	}
	return scimAnswer{}, tidemark.NotFoundf("not found")
}

// attribute describes one attribute of a schema.
func attribute(name, kind string, more resource) resource {
	a := resource{"name": name, "type": kind, "multiValued": false, "required": false, "caseExact": false, "mutability": "readWrite", "returned": "default", "uniqueness": "none"}
	for k, v := range more {
		a[k] = v
	}
	return a
}

func scimSchemas(c scimCall) (scimAnswer, error) {
	text := func(name string) resource { return attribute(name, "string", nil) }
	value := attribute("value", "string", resource{"caseExact": true})
	user := []resource{
		attribute("userName", "string", resource{"required": true, "uniqueness": "server"}),
		attribute("externalId", "string", resource{"caseExact": true}), text("displayName"),
		attribute("name", "complex", resource{"subAttributes": []resource{text("formatted"), text("givenName"), text("familyName")}}),
		attribute("emails", "complex", resource{"multiValued": true, "subAttributes": []resource{text("value"), text("type"), attribute("primary", "boolean", nil)}}),
		attribute("active", "boolean", nil),
		attribute("groups", "complex", resource{"multiValued": true, "mutability": "readOnly", "subAttributes": []resource{value, text("display")}}),
	}
	group := []resource{
		attribute("displayName", "string", resource{"required": true, "uniqueness": "server"}), attribute("externalId", "string", resource{"caseExact": true}),
		attribute("members", "complex", resource{"multiValued": true, "subAttributes": []resource{value, text("type")}}),
	}
	var all []resource
	for _, s := range []struct {
		id, name   string
		attributes []resource
	}{{scimUser, "User", user}, {scimGroup, "Group", group}} {
		all = append(all, resource{"schemas": []string{scimSchema}, "id": s.id, "name": s.name, "description": s.name, "attributes": s.attributes,
			"meta": resource{"resourceType": "Schema", "location": SCIMPath + "/Schemas/" + s.id}})
	}
	return c.oneOrAll(all)
}
