"""Renders the sample pictures and the sample clip with Blender as a Python module (`pip install bpy==4.5.15`).

    python scenes.py -- coffee coffee.png
    python scenes.py -- pool pool.png
    python scenes.py -- sea frames/          (100 frames, 25 a second)

Everything is modelled here from primitives; no outside asset is used.
"""
import math
import random
import sys

import bpy

name, target, *rest = sys.argv[sys.argv.index("--") + 1:]
random.seed(7)
bpy.ops.wm.read_factory_settings(use_empty=True)
scene = bpy.context.scene
scene.render.engine = "CYCLES"
scene.cycles.device = "CPU"
scene.cycles.use_denoising = True
scene.view_settings.view_transform = "Filmic"
scene.view_settings.look = "Medium High Contrast"


def material(label, colour, roughness=0.5, **inputs):
    made = bpy.data.materials.new(label)
    made.use_nodes = True
    shader = made.node_tree.nodes["Principled BSDF"]
    shader.inputs["Base Color"].default_value = (*colour, 1)
    shader.inputs["Roughness"].default_value = roughness
    for key, value in inputs.items():
        shader.inputs[key.replace("_", " ")].default_value = value
    return made


def wood(label, dark, light, scale=3.0, stretch=(1, 12, 1)):
    made = material(label, dark, 0.45)
    nodes, links = made.node_tree.nodes, made.node_tree.links
    where = nodes.new("ShaderNodeTexCoord")
    mapping = nodes.new("ShaderNodeMapping")
    mapping.inputs["Scale"].default_value = stretch
    noise = nodes.new("ShaderNodeTexNoise")
    noise.inputs["Scale"].default_value = scale
    noise.inputs["Detail"].default_value = 10
    noise.inputs["Distortion"].default_value = 1.2
    ramp = nodes.new("ShaderNodeValToRGB")
    ramp.color_ramp.elements[0].color = (*dark, 1)
    ramp.color_ramp.elements[1].color = (*light, 1)
    ramp.color_ramp.elements[0].position = 0.35
    ramp.color_ramp.elements[1].position = 0.7
    bump = nodes.new("ShaderNodeBump")
    bump.inputs["Strength"].default_value = 0.15
    links.new(where.outputs["Object"], mapping.inputs["Vector"])
    links.new(mapping.outputs["Vector"], noise.inputs["Vector"])
    links.new(noise.outputs["Fac"], ramp.inputs["Fac"])
    shader = nodes["Principled BSDF"]
    links.new(ramp.outputs["Color"], shader.inputs["Base Color"])
    links.new(noise.outputs["Fac"], bump.inputs["Height"])
    links.new(bump.outputs["Normal"], shader.inputs["Normal"])
    return made


def paint(thing, made, smooth=True):
    thing.data.materials.append(made)
    if smooth:
        for face in thing.data.polygons:
            face.use_smooth = True
    return thing


def lathe(profile, made, at=(0, 0, 0), steps=96):
    """A body of revolution around z from (radius, height) points."""
    vertices, faces = [], []
    for i in range(steps):
        angle = 2 * math.pi * i / steps
        vertices += [(r * math.cos(angle), r * math.sin(angle), z) for r, z in profile]
    n = len(profile)
    for i in range(steps):
        for j in range(n - 1):
            a, b = i * n + j, ((i + 1) % steps) * n + j
            faces.append((a, b, b + 1, a + 1))
    mesh = bpy.data.meshes.new("lathe")
    mesh.from_pydata(vertices, [], faces)
    thing = bpy.data.objects.new("lathe", mesh)
    thing.location = at
    scene.collection.objects.link(thing)
    return paint(thing, made)


def box(size, at, made, bevel=0.02, turn=(0, 0, 0)):
    bpy.ops.mesh.primitive_cube_add(location=at, rotation=turn)
    thing = bpy.context.object
    thing.scale = tuple(part / 2 for part in size)
    bpy.ops.object.transform_apply(location=False, rotation=False, scale=True)
    rounding = thing.modifiers.new("bevel", "BEVEL")
    rounding.width, rounding.segments = bevel, 4
    return paint(thing, made)


def sky(elevation, turn, strength=0.25):
    world = bpy.data.worlds.new("sky")
    scene.world = world
    world.use_nodes = True
    nodes, links = world.node_tree.nodes, world.node_tree.links
    texture = nodes.new("ShaderNodeTexSky")
    texture.sky_type = "NISHITA"
    texture.sun_elevation = math.radians(elevation)
    texture.sun_rotation = math.radians(turn)
    texture.sun_size = math.radians(1.6)
    texture.sun_intensity = 0.5
    texture.dust_density = 1.6
    texture.ozone_density = 3.0
    links.new(texture.outputs["Color"], nodes["Background"].inputs["Color"])
    nodes["Background"].inputs["Strength"].default_value = strength


def water(size, at, scale, strength, colour=(0.01, 0.07, 0.09), roughness=0.06):
    bpy.ops.mesh.primitive_plane_add(size=size, location=at)
    made = material("water", colour, roughness, Specular_IOR_Level=0.6)
    nodes, links = made.node_tree.nodes, made.node_tree.links
    where = nodes.new("ShaderNodeTexCoord")
    waves = nodes.new("ShaderNodeTexNoise")
    waves.inputs["Scale"].default_value = scale
    waves.inputs["Detail"].default_value = 6
    bump = nodes.new("ShaderNodeBump")
    bump.inputs["Strength"].default_value = strength
    bump.inputs["Distance"].default_value = 0.1
    links.new(where.outputs["Object"], waves.inputs["Vector"])
    links.new(waves.outputs["Fac"], bump.inputs["Height"])
    links.new(bump.outputs["Normal"], nodes["Principled BSDF"].inputs["Normal"])
    return paint(bpy.context.object, made, smooth=False)


def camera(at, look, lens, focus=None, stop=2.8):
    data = bpy.data.cameras.new("camera")
    thing = bpy.data.objects.new("camera", data)
    scene.collection.objects.link(thing)
    thing.location = at
    goal = bpy.data.objects.new("goal", None)
    goal.location = look
    scene.collection.objects.link(goal)
    aim = thing.constraints.new("TRACK_TO")
    aim.target, aim.track_axis, aim.up_axis = goal, "TRACK_NEGATIVE_Z", "UP_Y"
    data.lens = lens
    if focus:
        data.dof.use_dof = True
        data.dof.focus_distance = focus
        data.dof.aperture_fstop = stop
    scene.camera = thing
    return thing


def frame(width, height, samples):
    scene.render.resolution_x, scene.render.resolution_y = width, height
    scene.cycles.samples = samples
    scene.cycles.use_adaptive_sampling = True
    scene.cycles.adaptive_threshold = 0.05


def coffee():
    white = material("porcelain", (0.86, 0.84, 0.8), 0.15, Specular_IOR_Level=0.6)
    table = wood("walnut", (0.09, 0.035, 0.014), (0.32, 0.15, 0.06), 2.2, (1, 9, 1))
    lathe([(0, -0.06), (1.02, -0.06), (1.05, -0.03), (1.02, 0), (0, 0)], table)
    lathe([(0, 0.012), (0.11, 0.012), (0.13, 0.02), (0.235, 0.045), (0.24, 0.052), (0.225, 0.052), (0.12, 0.03), (0, 0.026)], white)
    cup = [(0, 0.03), (0.075, 0.03), (0.09, 0.045), (0.125, 0.1), (0.145, 0.17), (0.15, 0.215), (0.143, 0.218), (0.136, 0.19), (0.118, 0.11), (0.085, 0.06), (0, 0.055)]
    lathe(cup, white)
    brew = material("coffee", (0.055, 0.018, 0.006), 0.08)
    crema = material("crema", (0.42, 0.2, 0.075), 0.35)
    lathe([(0, 0.184), (0.1, 0.184), (0.133, 0.185)], crema)
    for radius in (0.02, 0.05, 0.078):
        lathe([(radius, 0.1855), (radius + 0.008, 0.187), (radius + 0.016, 0.1855)], material("foam", (0.82, 0.66, 0.46), 0.5))
    lathe([(0.125, 0.184), (0.136, 0.187)], brew)
    bpy.ops.mesh.primitive_torus_add(location=(0.165, 0.0, 0.135), rotation=(math.radians(90), 0, 0), major_radius=0.052, minor_radius=0.012, major_segments=64, minor_segments=24)
    paint(bpy.context.object, white)
    lathe([(0, 0.006), (0.16, 0.006), (0.25, 0.035), (0.25, 0.042), (0.155, 0.016), (0, 0.014)], material("plate", (0.16, 0.3, 0.33), 0.25), (-0.36, -0.2, 0))
    colours = [(0.78, 0.28, 0.33), (0.42, 0.55, 0.27), (0.85, 0.62, 0.25)]
    spots = [(-0.42, -0.15, 0.015, 0), (-0.3, -0.24, 0.015, 0), (-0.36, -0.19, 0.105, 8)]
    for colour, (x, y, z, tilt) in zip(colours, spots):
        shell = material("shell", colour, 0.6, Subsurface_Weight=0.1)
        cream = material("cream", tuple(min(1, part * 0.4 + 0.55) for part in colour), 0.7)
        half = [(0, 0.0), (0.066, 0.0), (0.074, 0.008), (0.073, 0.016), (0.062, 0.03), (0.035, 0.039), (0, 0.041)]
        for made, profile in ((shell, [(r, 0.041 - h) for r, h in reversed(half)]), (cream, [(0, 0.04), (0.064, 0.04), (0.068, 0.046), (0.064, 0.053), (0, 0.053)]), (shell, [(r, h + 0.053) for r, h in half])):
            lathe(profile, made, (x, y, z)).rotation_euler = (math.radians(tilt), math.radians(tilt), 0)
    leaf = material("leaf", (0.06, 0.2, 0.07), 0.5)
    lathe([(0, 0), (0.07, 0), (0.09, 0.13), (0.083, 0.135), (0.07, 0.1), (0, 0.1)], material("clay", (0.5, 0.22, 0.13), 0.8), (0.36, 0.36, 0))
    for ring, (count, length, rise) in enumerate(((9, 0.13, 20), (7, 0.11, 45), (5, 0.085, 68))):
        for i in range(count):
            bpy.ops.mesh.primitive_uv_sphere_add(location=(0, 0, 0), segments=24, ring_count=12)
            petal = bpy.context.object
            turn = 2 * math.pi * i / count + ring * 0.4
            up = math.radians(rise)
            petal.scale = (length / 2, 0.028, 0.012)
            petal.rotation_euler = (0, -up, turn)
            reach = length / 2 * math.cos(up)
            petal.location = (0.36 + reach * math.cos(turn), 0.36 + reach * math.sin(turn), 0.13 + length / 2 * math.sin(up))
            paint(petal, leaf)
    water(4000, (0, 0, -4), 0.6, 0.35, (0.012, 0.05, 0.075))
    box((5, 0.05, 0.05), (0, 2.2, 0.12), material("rail", (0.75, 0.74, 0.7), 0.4))
    sky(8, 22, 0.17)
    lamp = bpy.data.lights.new("fill", "AREA")
    lamp.energy, lamp.size, lamp.color = 28, 2.5, (1, 0.86, 0.72)
    fill = bpy.data.objects.new("fill", lamp)
    fill.location, fill.rotation_euler = (-1.2, -1.8, 1.8), (math.radians(48), 0, math.radians(-34))
    scene.collection.objects.link(fill)
    camera((-0.12, -1.75, 0.78), (-0.02, 0.1, 0.17), 52, 1.8, 3.2)
    frame(1080, 1440, 48)


def pool():
    deck = wood("teak", (0.2, 0.1, 0.045), (0.45, 0.27, 0.14), 3.5, (14, 1, 1))
    for i in range(62):
        box((6.2, 0.19, 0.06), (-1.9 + random.uniform(-0.01, 0.01), -5 + i * 0.2, -0.03), deck, 0.008)
    stone = material("stone", (0.62, 0.58, 0.52), 0.7)
    box((0.22, 14, 0.12), (1.3, 1.2, -0.02), stone)
    bottom = water(1, (4.3, 1.2, -0.06), 22, 0.35, (0.03, 0.32, 0.36), 0.03)
    bottom.scale = (5.8, 14, 1)
    water(6000, (0, 0, -9), 0.25, 0.5, (0.012, 0.055, 0.085))
    box((14, 0.2, 0.1), (2, 8.2, -0.03), stone)
    linen = material("linen", (0.82, 0.78, 0.7), 0.9)
    for x in (-1.75, -0.35):
        frame_wood = wood("frame", (0.24, 0.12, 0.05), (0.42, 0.25, 0.12), 3)
        box((0.72, 1.5, 0.07), (x, 0.75, 0.3), frame_wood)
        box((0.66, 1.45, 0.13), (x, 0.75, 0.4), linen, 0.05)
        box((0.66, 0.8, 0.13), (x, -0.22, 0.62), linen, 0.05, (math.radians(-38), 0, 0))
        box((0.5, 0.24, 0.13), (x, -0.42, 0.88), material("pillow", (0.82, 0.33, 0.18), 0.9), 0.06, (math.radians(-38), 0, 0))
        for dx in (-0.3, 0.3):
            for y in (0.1, 1.4):
                box((0.06, 0.06, 0.3), (x + dx, y, 0.14), frame_wood, 0.01)
    lathe([(0.025, 0), (0.025, 2.75)], material("pole", (0.3, 0.18, 0.09), 0.5), (-1.05, 0.55, 0), 24)
    cloth = material("canvas", (0.85, 0.8, 0.68), 0.95, Subsurface_Weight=0.05)
    shade = lathe([(1.75, 2.12), (1.72, 2.2), (0.9, 2.52), (0.02, 2.8)], cloth, (-1.05, 0.55, 0), 8)
    for face in shade.data.polygons:
        face.use_smooth = False
    lathe([(0, 0.42), (0.24, 0.42), (0.25, 0.44), (0, 0.45)], deck, (-1.05, 0.95, 0))
    lathe([(0.03, 0), (0.03, 0.42)], deck, (-1.05, 0.95, 0), 24)
    glass = material("juice", (0.95, 0.42, 0.06), 0.05, Specular_IOR_Level=0.7)
    lathe([(0, 0.45), (0.045, 0.45), (0.055, 0.63), (0, 0.63)], glass, (-1.12, 0.95, 0))
    lathe([(0, 0.45), (0.045, 0.45), (0.055, 0.6), (0, 0.6)], material("berry", (0.75, 0.08, 0.14), 0.05, Specular_IOR_Level=0.7), (-0.96, 1.02, 0))
    trunk = wood("trunk", (0.12, 0.075, 0.04), (0.3, 0.2, 0.12), 6)
    frond = material("frond", (0.035, 0.13, 0.04), 0.5)
    for px, py, height in ((-3.2, 4.6, 4.6), (-2.5, 6.2, 5.6)):
        for i in range(24):
            bend = (i / 24) ** 2 * 0.7
            lathe([(0.13 - i * 0.002, 0), (0.11 - i * 0.002, height / 24 + 0.02)], trunk, (px + bend, py, i * height / 24), 20)
        for i in range(13):
            turn = 2 * math.pi * i / 13 + px
            spine = [(0.16 * t * t + t, -0.05 * t * t * t * 9 + 0.42 * t) for t in [k / 11 for k in range(12)]]
            vertices, faces = [], []
            for k in range(11):
                (r1, z1), (r2, z2) = spine[k], spine[k + 1]
                for side in (-1, 1):
                    for part in (0.15, 0.65):
                        r, z = r1 + (r2 - r1) * part, z1 + (z2 - z1) * part
                        width = 0.46 * math.sin(math.pi * (k + part + 1) / 13.5)
                        start = len(vertices)
                        vertices += [(r * 1.7, 0, z), (r * 1.7 + 0.1, 0, z), (r * 1.7 + 0.32, side * width, z - 0.24)]
                        faces.append((start, start + 1, start + 2))
            mesh = bpy.data.meshes.new("frond")
            mesh.from_pydata(vertices, [], faces)
            thing = bpy.data.objects.new("frond", mesh)
            thing.location, thing.rotation_euler = (px + 0.7, py, height), (0, 0, turn)
            scene.collection.objects.link(thing)
            paint(thing, frond, smooth=False)
    sky(6, -12, 0.16)
    lamp = bpy.data.lights.new("fill", "AREA")
    lamp.energy, lamp.size, lamp.color = 330, 6, (1, 0.8, 0.62)
    fill = bpy.data.objects.new("fill", lamp)
    fill.location, fill.rotation_euler = (-2, -5, 4), (math.radians(50), 0, math.radians(-10))
    scene.collection.objects.link(fill)
    camera((0.75, -4.6, 1.75), (-0.35, 3, 1.35), 30)
    frame(1080, 1440, 40)


def sea():
    bpy.ops.mesh.primitive_plane_add(size=1)
    waves = bpy.context.object.modifiers.new("ocean", "OCEAN")
    waves.geometry_mode = "GENERATE"
    waves.repeat_x, waves.repeat_y = 3, 7
    waves.resolution, waves.viewport_resolution = 15, 15
    waves.spatial_size = 60
    waves.wave_scale, waves.choppiness, waves.wind_velocity = 1.5, 1.1, 9
    waves.wave_alignment, waves.wave_direction = 0.5, math.radians(80)
    bpy.context.object.location = (-60, -10, 0)
    waves.time = 1
    waves.keyframe_insert("time", frame=1)
    waves.time = 5.2
    waves.keyframe_insert("time", frame=100)
    for curve in bpy.context.object.animation_data.action.fcurves:
        for key in curve.keyframe_points:
            key.interpolation = "LINEAR"
    paint(bpy.context.object, material("water", (0.006, 0.045, 0.06), 0.07, Specular_IOR_Level=0.6))
    water(9000, (0, 4600, -0.4), 0.05, 0.6, (0.006, 0.045, 0.06), 0.12)
    sky(4.5, 3, 0.17)
    eye = camera((0, -2, 3.0), (1.5, 60, 5.5), 34)
    eye.keyframe_insert("location", frame=1)
    eye.location = (0.6, 3.5, 3.6)
    eye.keyframe_insert("location", frame=100)
    frame(540, 960, 10)
    scene.render.fps = 25
    scene.frame_start, scene.frame_end = 1, 100


{"coffee": coffee, "pool": pool, "sea": sea}[name]()
scene.render.filepath = target
scene.render.image_settings.file_format = "PNG"
if "--preview" in rest:
    scene.render.resolution_percentage = 30
    scene.cycles.samples = 12
    scene.frame_start = scene.frame_end = 50
bpy.ops.render.render(animation=name == "sea", write_still=name != "sea")
