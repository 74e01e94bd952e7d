/* The arguments of a tool against its schema: the part of JSON Schema that tools use, which is type,
 * enum, minimum, maximum, maxItems and required. */
#include "mcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *mcp_tool_schema(const mcp_tool *tool) {
    size_t size = strlen(tool->properties) + strlen(tool->required) + 128;
    char *text = malloc(size);
    json_t *schema = NULL;
    if (text) {
        (void)snprintf(text, size,
                       "{\"type\":\"object\",\"properties\":{%s},\"required\":%s,"
                       "\"additionalProperties\":false}",
                       tool->properties, tool->required);
        schema = json_loads(text, 0, NULL);
    }
    free(text);
    return schema;
}

static bool has_type(const json_t *value, const char *type) {
    return strcmp(type, "string") == 0    ? json_is_string(value)
           : strcmp(type, "integer") == 0 ? json_is_integer(value)
           : strcmp(type, "number") == 0  ? json_is_number(value)
           : strcmp(type, "boolean") == 0 ? json_is_boolean(value)
                                          : json_is_array(value);
}

static bool is_one_of(const json_t *value, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_equal(value, json_array_get(list, i))) {
            return true;
        }
    }
    return list == NULL;
}

static bool are_strings(const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!json_is_string(json_array_get(list, i))) {
            return false;
        }
    }
    return true;
}

static bool check_value(const char *key, const json_t *value, const json_t *property,
                        td_error *error) {
    const char *type = json_string_value(json_object_get(property, "type"));
    const json_t *choices = json_object_get(property, "enum");
    const json_t *low = json_object_get(property, "minimum");
    const json_t *high = json_object_get(property, "maximum");
    const json_t *max_items = json_object_get(property, "maxItems");
    bool good = true;
    if (!type || !has_type(value, type)) {
        good = td_error_set(error, TD_INVALID, "%s must be of type %s", key,
                            type ? type : "none") == TD_OK;
    } else if (json_is_array(value) &&
               (!are_strings(value) ||
                json_array_size(value) > (size_t)json_integer_value(max_items))) {
        good = td_error_set(error, TD_INVALID, "%s must be a list of at most %lld strings", key,
                            (long long)json_integer_value(max_items)) == TD_OK;
    } else if (!is_one_of(value, choices)) {
        char *list = json_dumps(choices, JSON_COMPACT);
        good = td_error_set(error, TD_INVALID, "%s must be one of %.600s", key, list ? list : "") ==
               TD_OK;
        free(list);
    } else if ((low && json_number_value(value) < json_number_value(low)) ||
               (high && json_number_value(value) > json_number_value(high))) {
        good = td_error_set(error, TD_INVALID, "%s must be from %g to %g", key,
                            json_number_value(low), json_number_value(high)) == TD_OK;
    }
    return good;
}

bool mcp_tool_check(const mcp_tool *tool, const json_t *arguments, td_error *error) {
    json_t *schema = mcp_tool_schema(tool);
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *required = json_object_get(schema, "required");
    bool good = schema || td_error_set(error, TD_MEMORY, "out of memory") == TD_OK;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)arguments, key, value) {
        const json_t *property = json_object_get(properties, key);
        if (good && !property) {
            good = td_error_set(error, TD_INVALID, "%s has no argument %.100s", tool->name, key) ==
                   TD_OK;
        }
        good = good && check_value(key, value, property, error);
    }
    for (size_t i = 0; good && i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (!json_object_get(arguments, name)) {
            good = td_error_set(error, TD_INVALID, "%s needs the argument %s", tool->name, name) ==
                   TD_OK;
        }
    }
    json_decref(schema);
    return good;
}
